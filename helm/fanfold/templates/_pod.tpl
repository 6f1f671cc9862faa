{{/* What Kubernetes calls restricted; the user and groups may be null, where the platform chooses them. */}}
{{- define "fanfold.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurity.runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .Values.podSecurity.runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
{{- with .Values.podSecurity.fsGroup }}
fsGroup: {{ int64 . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fanfold.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What every pod of the chart has, whoever's image it runs. Service links would be variables named FANFOLD_..., which Fanfold
refuses as unknown. */}}
{{- define "fanfold.pod.common" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a pod may be: (list . labels values) */}}
{{- define "fanfold.pod.placement" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if $root.Values.topologySpread }}
topologySpreadConstraints:
{{- range $root.Values.topologySpread }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector: {matchLabels: {{ toJson (fromYaml (index $ 1)) }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod of a part of the control plane. A dict:
  root, component, values   of the chart, its name, its values
  labels                    YAML of the labels that select it
  args                      of `fanfold`
  port, portName            what it listens on
  env                       YAML of further variables
  probes                    YAML of its probes, and of its lifecycle
  rights                    whether it is given rights in the cluster
*/}}
{{- define "fanfold.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $reaches := include "fanfold.reachesSandboxes" (list $root .component) -}}
{{- $docker := and $reaches (include "fanfold.usesDocker" $root) -}}
{{- $ssh := and $docker (eq $root.Values.sandboxes.docker.engine "ssh") -}}
{{- $uploads := and (eq .component "api") (include "fanfold.hasSharedUploads" $root) -}}
metadata:
  labels:
    {{- include "fanfold.podLabels" (list $root .component) | nindent 4 }}
    {{- range $key, $value := omit (fromYaml .labels) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
    {{ $key }}: {{ $value }}
    {{- end }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ include "fanfold.settings" $root | sha256sum }}
    checksum/files: {{ include "fanfold.files" $root | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "fanfold.pod.common" $root | nindent 2 }}
  serviceAccountName: {{ include "fanfold.serviceAccount" (list $root .component $values) }}
  automountServiceAccountToken: {{ and .rights (gt (len $root.Values.sandboxes.rbac.rules) 0) }}
  securityContext: {{- include "fanfold.podSecurity" $root | nindent 4 }}
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- include "fanfold.pod.placement" (list $root .labels $values) | nindent 2 }}
  containers:
    - name: {{ .component }}
      image: {{ include "fanfold.image" (list $root $root.Values.image $root.Chart.AppVersion) }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: [fanfold]
      args: {{ toJson .args }}
      ports: [{name: {{ .portName }}, containerPort: {{ .port }}}]
      envFrom:
        - configMapRef: {name: {{ include "fanfold.fullname" $root }}-settings}
        {{- if and (eq .component "worker") $root.Values.models.existingSecret }}
        - secretRef: {name: {{ $root.Values.models.existingSecret }}}
        {{- end }}
      env:
        {{- include "fanfold.env" (list $root .component $values) | nindent 8 }}
        {{- with .env }}
        {{- . | nindent 8 }}
        {{- end }}
      {{- .probes | nindent 6 }}
      resources: {{- toYaml $values.resources | nindent 8 }}
      securityContext: {{- include "fanfold.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/fanfold}
        - {name: user, mountPath: /home/fanfold}
        - {name: tmp, mountPath: /tmp}
        {{- if or $root.Values.policy $root.Values.prices }}
        - {name: files, mountPath: /etc/fanfold/files, readOnly: true}
        {{- end }}
        {{- if include "fanfold.hasArtifactVolume" $root }}
        - {name: artifacts, mountPath: /srv/fanfold}
        {{- end }}
        {{- if $uploads }}
        - {name: uploads, mountPath: /srv/uploads}
        {{- end }}
        {{- if $docker }}
        - {name: engine, mountPath: {{ ternary "/home/fanfold/.ssh" "/etc/fanfold/docker" (eq $root.Values.sandboxes.docker.engine "ssh") }}, readOnly: true}
        {{- end }}
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    # Everything that a pod writes for itself. Nothing of it is missed when the pod is gone.
    - {name: home, emptyDir: {sizeLimit: {{ $values.scratchSize }}}}
    - {name: user, emptyDir: {sizeLimit: 100Mi}}
    - {name: tmp, emptyDir: {sizeLimit: {{ $values.scratchSize }}}}
    {{- if or $root.Values.policy $root.Values.prices }}
    - {name: files, configMap: {name: {{ include "fanfold.fullname" $root }}-files}}
    {{- end }}
    {{- if include "fanfold.hasArtifactVolume" $root }}
    - {name: artifacts, persistentVolumeClaim: {claimName: {{ default (printf "%s-artifacts" (include "fanfold.fullname" $root)) $root.Values.artifacts.volume.existingClaim }}}}
    {{- end }}
    {{- if $uploads }}
    - {name: uploads, persistentVolumeClaim: {claimName: {{ default (printf "%s-uploads" (include "fanfold.fullname" $root)) $root.Values.api.uploads.existingClaim }}}}
    {{- end }}
    {{- if $docker }}
    - {name: engine, secret: {secretName: {{ include "fanfold.secret.engine" $root }}, defaultMode: 0440}}
    {{- end }}
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
