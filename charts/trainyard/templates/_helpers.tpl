{{/* Name of everything that belongs to this release's operator. */}}
{{- define "trainyard.name" -}}
{{- default (printf "%s-operator" .Release.Name) .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "trainyard.serviceAccount" -}}
{{- default (include "trainyard.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* By which the Deployment finds its pods: never changes within a release. */}}
{{- define "trainyard.selectorLabels" -}}
app.kubernetes.io/name: trainyard-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "trainyard.ownLabels" -}}
{{ include "trainyard.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The labels `given` by the value named `what`. One that the chart sets itself is refused: by some of these the Deployment finds its pods. */}}
{{- define "trainyard.givenLabels" -}}
{{- $own := include "trainyard.ownLabels" .root | fromYaml }}
{{- $given := .given | default dict }}
{{- range $label, $_ := $given }}
{{- if hasKey $own $label }}
{{- fail (printf "%s holds %s, which the chart sets itself: leave it out" $.what $label) }}
{{- end }}
{{- end }}
{{- toYaml $given }}
{{- end -}}

{{- define "trainyard.labels" -}}
{{- $own := include "trainyard.ownLabels" . | fromYaml }}
{{- toYaml (merge $own (include "trainyard.givenLabels" (dict "root" . "what" "commonLabels" "given" .Values.commonLabels) | fromYaml)) }}
{{- end -}}

{{- define "trainyard.podLabels" -}}
{{- $given := include "trainyard.givenLabels" (dict "root" . "what" "podLabels" "given" .Values.podLabels) | fromYaml }}
{{- toYaml (merge $given (include "trainyard.labels" . | fromYaml)) }}
{{- end -}}

{{/* The operator's image: the digest where there is one, else the tag. */}}
{{- define "trainyard.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{/* workerImages.cpu or .cuda, by its name in `what`, with the digest in the tag's place where there is one. */}}
{{- define "trainyard.workerImage" -}}
{{- $image := get .root.Values.workerImages .what | default "" }}
{{- $digest := get .root.Values.workerImages (printf "%sDigest" .what) | default "" }}
{{- if and $digest (not $image) }}
{{- fail (printf "workerImages.%sDigest is set, but workerImages.%s, the image that it belongs to, is empty: set both or neither" .what .what) }}
{{- end }}
{{- if $digest }}{{ printf "%s@%s" (regexReplaceAll "(:[^/:@]*)?(@.*)?$" $image "") $digest }}{{ else }}{{ $image }}{{ end }}
{{- end -}}

{{/* Ends with an error where extraArgs holds a flag that the chart gives: the operator takes most flags only once. */}}
{{- define "trainyard.checkExtraArgs" -}}
{{- $ours := dict
  "--listen" "leave it out, since the probes, the Service and the NetworkPolicy use port 8080"
  "--leader-election-namespace" "leave it out, since the roles allow the Lease in the release's namespace"
  "--user-ids" "set the value userIds instead"
  "--api-silence-max" "set the value apiSilenceMaxSeconds instead"
  "--workers" "set the value workers instead"
  "--log-level" "set the value logLevel instead"
  "--namespaces" "set the value namespaces instead, which makes the roles as well"
  "--worker-image-cpu" "set the value workerImages.cpu instead"
  "--worker-image-cuda" "set the value workerImages.cuda instead"
  "--worker-pull-secret" "set the value workerImages.pullSecrets instead" }}
{{- range .Values.extraArgs }}
{{- $flag := regexReplaceAll "[= ].*" . "" }}
{{- if hasKey $ours $flag }}
{{- fail (printf "extraArgs holds %s, which the chart sets itself: %s" $flag (get $ours $flag)) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What the operator does with the jobs of a namespace, and with what belongs to them. */}}
{{- define "trainyard.jobRules" -}}
- apiGroups: [trainyard.dev]
  resources: [trainingjobs]
  # delete: for ttlSecondsAfterFinished; patch: the finalizer of checkpoint.onDelete
  verbs: [get, list, watch, patch, delete]
- apiGroups: [trainyard.dev]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  # What kubelets say of volumes that do not mount.
  verbs: [list, watch]
{{- end -}}

{{/* fixed or cluster. */}}
{{- define "trainyard.userIds" -}}
{{- if ne .Values.userIds "auto" }}{{ .Values.userIds }}
{{- else if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}cluster
{{- else }}fixed
{{- end }}
{{- end }}
