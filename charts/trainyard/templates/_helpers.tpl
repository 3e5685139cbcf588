{{/* Name of everything that belongs to this release's operator. */}}
{{- define "trainyard.name" -}}
{{- default (printf "%s-operator" .Release.Name) .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "trainyard.serviceAccount" -}}
{{- default (include "trainyard.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Labels by which the Deployment selects its pods. They must not change within a release. */}}
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

{{/* The labels `given` by the value named `what`. Refuses labels that the chart sets itself, since the Deployment selects its pods by some of them. */}}
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

{{/* The operator's image with its digest, or with its tag if there is no digest. */}}
{{- define "trainyard.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ printf "%s@%s" .repository .digest }}{{ else }}{{ printf "%s:%s" .repository .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{/* workerImages.cpu or .cuda, whichever `what` names. A digest, if there is one, replaces the tag. */}}
{{- define "trainyard.workerImage" -}}
{{- $image := get .root.Values.workerImages .what | default "" }}
{{- $digest := get .root.Values.workerImages (printf "%sDigest" .what) | default "" }}
{{- if and $digest (not $image) }}
{{- fail (printf "workerImages.%sDigest is set, but workerImages.%s, the image that it belongs to, is empty: set both or neither" .what .what) }}
{{- end }}
{{- if $digest }}{{ printf "%s@%s" (regexReplaceAll "(:[^/:@]*)?(@.*)?$" $image "") $digest }}{{ else }}{{ $image }}{{ end }}
{{- end -}}

{{/* Fails if extraArgs has a flag that the chart sets, since the operator accepts most flags only once. */}}
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

{{/* The operator's rules for the jobs of a namespace and their objects. */}}
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
  resources: [services]
  # A job's service selects the pods of its newest attempt.
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  # Kubelets' events about volumes that do not mount.
  verbs: [list, watch]
{{- end -}}

{{/* The value of userIds in effect: fixed or cluster. */}}
{{- define "trainyard.userIds" -}}
{{- if ne .Values.userIds "auto" }}{{ .Values.userIds }}
{{- else if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}cluster
{{- else }}fixed
{{- end }}
{{- end }}
