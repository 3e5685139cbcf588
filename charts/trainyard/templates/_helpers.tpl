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

{{- define "trainyard.labels" -}}
{{ include "trainyard.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
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
