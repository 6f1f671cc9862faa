{{- define "fanfold.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* 40 characters at most, so that a component's name fits behind it. */}}
{{- define "fanfold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of a component: (list . "api"); they never change, because a Deployment's selector cannot. */}}
{{- define "fanfold.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "fanfold.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "fanfold.labels" -}}
{{- $root := index . 0 -}}
{{ include "fanfold.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fanfold
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of pods: nothing that an upgrade of the chart alone changes, because pods would start anew for it. */}}
{{- define "fanfold.podLabels" -}}
{{ include "fanfold.selector" . }}
app.kubernetes.io/part-of: fanfold
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (list . image defaultTag) */}}
{{- define "fanfold.image" -}}
{{- $image := index . 1 -}}
{{- $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default (index . 2) $image.tag }}{{ end -}}
{{- end -}}

{{/* Names of Secrets: those that exist, or those that the chart makes. */}}
{{- define "fanfold.secret.postgresql" -}}
{{- default (printf "%s-postgresql" (include "fanfold.fullname" .)) .Values.database.bundled.existingSecret -}}
{{- end -}}
{{- define "fanfold.secret.redis" -}}
{{- default (printf "%s-redis" (include "fanfold.fullname" .)) .Values.redis.bundled.existingSecret -}}
{{- end -}}
{{- define "fanfold.secret.key" -}}
{{- default (printf "%s-secret-key" (include "fanfold.fullname" .)) .Values.secretKey.existingSecret -}}
{{- end -}}
{{- define "fanfold.secret.engine" -}}
{{- $docker := .Values.sandboxes.docker -}}
{{- if eq $docker.engine "tls" -}}{{ $docker.tls.existingSecret }}
{{- else if eq $docker.engine "ssh" -}}{{ $docker.ssh.existingSecret }}
{{- else -}}{{ default (printf "%s-engine-client" (include "fanfold.fullname" .)) $docker.dind.existingClientSecret -}}
{{- end -}}
{{- end -}}
{{- define "fanfold.secret.engineServer" -}}
{{- default (printf "%s-engine-server" (include "fanfold.fullname" .)) .Values.sandboxes.docker.dind.existingServerSecret -}}
{{- end -}}

{{/* (list . "worker" values) */}}
{{- define "fanfold.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $account := (index . 2).serviceAccount -}}
{{- if $account.create -}}
{{- default (printf "%s-%s" (include "fanfold.fullname" $root) (index . 1)) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{/* The values of each worker over those of all: YAML of a map, by name. */}}
{{- define "fanfold.workers" -}}
{{- $found := dict -}}
{{- range $name, $own := .Values.workers -}}
{{- $_ := set $found $name (mergeOverwrite (deepCopy $.Values.workerDefaults) (deepCopy (default dict $own))) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- define "fanfold.usesDocker" -}}{{ if has "docker" .Values.sandboxes.providers }}true{{ end }}{{- end -}}
{{- define "fanfold.usesDind" -}}
{{- if and (has "docker" .Values.sandboxes.providers) (eq .Values.sandboxes.docker.engine "dind") }}true{{ end -}}
{{- end -}}
{{- define "fanfold.hasArtifactVolume" -}}
{{- if or .Values.artifacts.volume.existingClaim .Values.artifacts.volume.size }}true{{ end -}}
{{- end -}}
{{- define "fanfold.hasSharedUploads" -}}
{{- if or .Values.api.uploads.existingClaim .Values.api.uploads.size }}true{{ end -}}
{{- end -}}
{{/* Whether a component talks to sandboxes: (list . "api") */}}
{{- define "fanfold.reachesSandboxes" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- if or (has $component (list "worker" "controller")) (and (eq $component "api") $root.Values.api.sandboxAccess) }}true{{ end -}}
{{- end -}}
