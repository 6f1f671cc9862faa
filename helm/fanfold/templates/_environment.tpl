{{/* The address of the record, alone: what a migration needs. */}}
{{- define "fanfold.env.database" -}}
- {name: FANFOLD_HOME, value: /var/lib/fanfold/home}
- {name: HOME, value: /home/fanfold}
{{- if .Values.database.bundled.enabled }}
- name: POSTGRES_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "fanfold.secret.postgresql" . }}, key: password}}
- name: FANFOLD_DATABASE_URL
  value: postgresql://fanfold:$(POSTGRES_PASSWORD)@{{ include "fanfold.fullname" . }}-postgresql:5432/fanfold
{{- else }}
- name: FANFOLD_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret }}, key: {{ .Values.database.key }}}}
{{- end }}
{{- end -}}

{{/* What every process of the control plane is told: (list . "api" values) */}}
{{- define "fanfold.env" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := $root.Values -}}
{{ include "fanfold.env.database" $root }}
{{- if $values.redis.bundled.enabled }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "fanfold.secret.redis" $root }}, key: password}}
- name: FANFOLD_REDIS_URL
  value: redis://:$(REDIS_PASSWORD)@{{ include "fanfold.fullname" $root }}-redis:6379/0
{{- else }}
- name: FANFOLD_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ $values.redis.existingSecret }}, key: {{ $values.redis.key }}}}
{{- end }}
- name: FANFOLD_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ include "fanfold.secret.key" $root }}, key: {{ $values.secretKey.key }}}}
{{- with $values.artifacts.s3.existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $values.artifacts.s3.accessKeyIdKey }}}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $values.artifacts.s3.secretAccessKeyKey }}}}
{{- end }}
{{- if include "fanfold.reachesSandboxes" (list $root $component) }}
{{- include "fanfold.env.sandboxes" $root }}
{{- end }}
{{- with concat $values.extraEnv (index . 2).extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fanfold.env.sandboxes" -}}
{{- $sandboxes := .Values.sandboxes -}}
{{- if has "modal" $sandboxes.providers }}
- name: MODAL_TOKEN_ID
  valueFrom: {secretKeyRef: {name: {{ $sandboxes.modal.existingSecret }}, key: {{ $sandboxes.modal.tokenIdKey }}}}
- name: MODAL_TOKEN_SECRET
  valueFrom: {secretKeyRef: {name: {{ $sandboxes.modal.existingSecret }}, key: {{ $sandboxes.modal.tokenSecretKey }}}}
{{- with $sandboxes.modal.environment }}
- {name: MODAL_ENVIRONMENT, value: {{ quote . }}}
{{- end }}
{{- end }}
{{- if has "daytona" $sandboxes.providers }}
- name: DAYTONA_API_KEY
  valueFrom: {secretKeyRef: {name: {{ $sandboxes.daytona.existingSecret }}, key: {{ $sandboxes.daytona.apiKeyKey }}}}
{{- with $sandboxes.daytona.apiUrl }}
- {name: DAYTONA_API_URL, value: {{ quote . }}}
{{- end }}
{{- with $sandboxes.daytona.target }}
- {name: DAYTONA_TARGET, value: {{ quote . }}}
{{- end }}
{{- end }}
{{- if include "fanfold.usesDocker" . }}
{{- $docker := $sandboxes.docker }}
{{- $own := printf "tcp://%s-engine:2376" (include "fanfold.fullname" .) }}
- {name: DOCKER_HOST, value: {{ get (dict "tls" $docker.tls.host "ssh" $docker.ssh.host "dind" $own) $docker.engine | quote }}}
{{- if ne $docker.engine "ssh" }}
- {name: DOCKER_TLS_VERIFY, value: "1"}
- {name: DOCKER_CERT_PATH, value: /etc/fanfold/docker}
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings that are no secrets, the same for all: data of the ConfigMap. */}}
{{- define "fanfold.settings" -}}
FANFOLD_LOG_LEVEL: {{ .Values.log.level | quote }}
FANFOLD_LOG_FORMAT: {{ .Values.log.format | quote }}
FANFOLD_ARTIFACTS_URL: {{ ternary "/srv/fanfold/artifacts" .Values.artifacts.url (eq (include "fanfold.hasArtifactVolume" .) "true") | quote }}
FANFOLD_WEBHOOK_ALLOW_PRIVATE: {{ .Values.webhooksAllowPrivate | quote }}
FANFOLD_METRICS_ADDR: {{ ternary (printf "[%s]:9464" .Values.listenAddress) (printf "%s:9464" .Values.listenAddress) (contains ":" .Values.listenAddress) | quote }}
{{- with .Values.policy }}
FANFOLD_POLICY: /etc/fanfold/files/policy.yaml
{{- end }}
{{- with .Values.prices }}
FANFOLD_PRICES: /etc/fanfold/files/prices.yaml
{{- end }}
FANFOLD_PROVIDER: {{ include "fanfold.defaultProvider" . | quote }}
{{- with .Values.sandboxes.docker.image }}
FANFOLD_DOCKER_IMAGE: {{ quote . }}
{{- end }}
{{- with .Values.artifacts.s3.endpoint }}
AWS_ENDPOINT_URL: {{ quote . }}
{{- end }}
{{- with .Values.artifacts.s3.region }}
AWS_REGION: {{ quote . }}
{{- end }}
{{- end -}}

{{/* Of tasks that name none. */}}
{{- define "fanfold.defaultProvider" -}}
{{- .Values.sandboxes.default | default (first (concat .Values.sandboxes.providers .Values.sandboxes.other)) -}}
{{- end -}}

{{- define "fanfold.files" -}}
{{- with .Values.policy }}
policy.yaml: |
  {{- with omit . "providers" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .providers }}
  {{- /* A mapping of Helm's has forgotten its order, and the order is what `auto` goes by. */}}
  providers:
    {{- range $name := concat $.Values.sandboxes.providers $.Values.sandboxes.other }}
    {{- if hasKey $.Values.policy.providers $name }}
    {{ quote $name }}: {{ get $.Values.policy.providers $name | toJson }}
    {{- end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- with .Values.prices }}
prices.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
