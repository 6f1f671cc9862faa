{{/* What contradicts itself, or would lose something, is refused, all of it at once. Each line says which value, and what to do. */}}
{{- define "fanfold.refusals" -}}
{{- $found := list -}}
{{- range list "state" "artifacts" "sandboxes" "docker" "scale" "workers" "doors" "images" "variables" -}}
{{- range splitList "\n" (include (printf "fanfold.refusals.%s" .) $) -}}
{{- if trim . }}{{ $found = append $found (printf "- %s" (trim .)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "\n\nThese values cannot be:\n%s\n" (join "\n" $found)) -}}
{{- end -}}
{{- end -}}

{{- define "fanfold.refusals.state" -}}
{{- $database := .Values.database }}
{{- if and $database.existingSecret $database.bundled.enabled }}
database: give database.existingSecret or database.bundled.enabled, not both
{{- else if not (or $database.existingSecret $database.bundled.enabled) }}
database: give database.existingSecret, a Secret with the address of a PostgreSQL; for a trial, database.bundled.enabled=true
{{- end }}
{{- $redis := .Values.redis }}
{{- if and $redis.existingSecret $redis.bundled.enabled }}
redis: give redis.existingSecret or redis.bundled.enabled, not both
{{- else if not (or $redis.existingSecret $redis.bundled.enabled) }}
redis: give redis.existingSecret, a Secret with the address of a Redis or Valkey; for a trial, redis.bundled.enabled=true
{{- end }}
{{- if and .Values.secretKey.existingSecret .Values.secretKey.generate }}
secretKey: give secretKey.existingSecret or secretKey.generate, not both
{{- else if not (or .Values.secretKey.existingSecret .Values.secretKey.generate) }}
secretKey: give secretKey.existingSecret, a Secret with 32 random bytes in base64 (openssl rand -base64 32), or secretKey.generate=true
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.artifacts" -}}
{{- $artifacts := .Values.artifacts }}
{{- $volume := include "fanfold.hasArtifactVolume" . }}
{{- if and $artifacts.url $volume }}
artifacts: give artifacts.url or artifacts.volume, not both
{{- else if not (or $artifacts.url $volume) }}
artifacts: what pods write is lost with them: give artifacts.url (s3://bucket/prefix), or artifacts.volume.size or artifacts.volume.existingClaim for a volume that all pods share
{{- end }}
{{- if and $volume (ne $artifacts.volume.accessMode "ReadWriteMany") (not $artifacts.volume.singleNode) }}
artifacts.volume.accessMode: {{ $artifacts.volume.accessMode }} volumes are mounted on one node, and pods on others could not start: use ReadWriteMany, or say artifacts.volume.singleNode=true where the cluster is one node
{{- end }}
{{- if and $artifacts.s3.existingSecret (not (regexMatch "^s3a?://" $artifacts.url)) }}
artifacts.s3.existingSecret: artifacts.url names no bucket of S3
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.sandboxes" -}}
{{- $sandboxes := .Values.sandboxes }}
{{- if has "local" (concat $sandboxes.providers $sandboxes.other) }}
sandboxes.providers: local needs user namespaces and mounts, which a restricted pod has not, and its sandboxes would die with the pod: use docker, modal or daytona
{{- end }}
{{- if not (or $sandboxes.providers $sandboxes.other) }}
sandboxes.providers: workers have nowhere to run anything: give one or more of docker, modal and daytona
{{- end }}
{{- range $name, $_ := .Values.policy.providers }}
{{- if not (has $name (concat $sandboxes.providers $sandboxes.other)) }}
policy.providers.{{ $name }}: it is not among the providers
{{- end }}
{{- end }}
{{- with $sandboxes.default }}
{{- if eq . "auto" }}
{{- if not $.Values.policy.providers }}
sandboxes.default: auto stands for what policy.providers lists, and that is nothing: list them, or name one here
{{- end }}
{{- else if not (has . (concat $sandboxes.providers $sandboxes.other)) }}
sandboxes.default: {{ . }} is not among the providers
{{- end }}
{{- end }}
{{- range $name := list "modal" "daytona" }}
{{- $secret := (get $sandboxes $name).existingSecret }}
{{- if and (has $name $sandboxes.providers) (not $secret) }}
sandboxes.{{ $name }}.existingSecret: {{ $name }} is among the providers: name the Secret with its keys
{{- else if and $secret (not (has $name $sandboxes.providers)) }}
sandboxes.{{ $name }}.existingSecret: {{ $name }} is not among sandboxes.providers
{{- end }}
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.docker" -}}
{{- $docker := .Values.sandboxes.docker }}
{{- $engine := $docker.engine }}
{{- if not (include "fanfold.usesDocker" .) }}
{{- if $engine }}
sandboxes.docker.engine: docker is not among sandboxes.providers
{{- end }}
{{- else if not $engine }}
sandboxes.docker.engine: say where the engine is: tls or ssh for one elsewhere, dind for a privileged one in this cluster
{{- end }}
{{- if eq $engine "tls" }}
{{- if not (and (hasPrefix "tcp://" $docker.tls.host) $docker.tls.existingSecret) }}
sandboxes.docker.tls: give host (tcp://HOST:2376) and existingSecret, a Secret with ca.pem, cert.pem and key.pem
{{- end }}
{{- else if eq $engine "ssh" }}
{{- if not (and (hasPrefix "ssh://" $docker.ssh.host) $docker.ssh.existingSecret) }}
sandboxes.docker.ssh: give host (ssh://USER@HOST) and existingSecret, a Secret with id_ed25519 and known_hosts
{{- end }}
{{- else if eq $engine "dind" }}
{{- if not $docker.dind.privileged }}
sandboxes.docker.dind.privileged: an engine in the cluster is a privileged container, and whoever breaks out of it is root on its node: set it to true to have that, or use an engine elsewhere
{{- end }}
{{- if ne (empty $docker.dind.existingServerSecret) (empty $docker.dind.existingClientSecret) }}
sandboxes.docker.dind: existingServerSecret and existingClientSecret belong to one authority: give both or none
{{- end }}
{{- end }}
{{- if and $docker.dind.privileged (ne $engine "dind") }}
sandboxes.docker.dind.privileged: sandboxes.docker.engine is not dind
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.scale" -}}
{{- $api := .Values.api }}
{{- $several := or $api.autoscaling.enabled (gt (int $api.replicas) 1) }}
{{- if and $several (not (include "fanfold.hasSharedUploads" .)) }}
api.replicas: what was uploaded to one pod is not found by another: give api.uploads.size or api.uploads.existingClaim, a volume that they share (ReadWriteMany), or have one replica
{{- end }}
{{- if and $api.autoscaling.enabled (gt (int $api.autoscaling.minReplicas) (int $api.autoscaling.maxReplicas)) }}
api.autoscaling: minReplicas {{ $api.autoscaling.minReplicas }} is more than maxReplicas {{ $api.autoscaling.maxReplicas }}
{{- end }}
{{- if le (int $api.terminationGracePeriodSeconds) (add (int $api.preStopSeconds) 15 | int) }}
api.terminationGracePeriodSeconds: after preStopSeconds ({{ $api.preStopSeconds }}) the API needs 15 s to answer what it has taken: give more than {{ add (int $api.preStopSeconds) 15 }}
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.workers" -}}
{{- $workers := fromYaml (include "fanfold.workers" .) }}
{{- $served := list }}
{{- range $name, $worker := $workers }}
{{- $served = concat $served $worker.queues }}
{{- $scaling := $worker.autoscaling }}
{{- if ne $scaling.type "none" }}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) }}
workers.{{ $name }}.autoscaling: minReplicas {{ $scaling.minReplicas }} is more than maxReplicas {{ $scaling.maxReplicas }}
{{- end }}
{{- end }}
{{- if and (eq $scaling.type "hpa") (lt (int $scaling.minReplicas) 1) }}
workers.{{ $name }}.autoscaling.minReplicas: a HorizontalPodAutoscaler does not go below 1; keda does
{{- end }}
{{- if and (eq $scaling.type "keda") (not $scaling.keda.serverAddress) }}
workers.{{ $name }}.autoscaling.keda.serverAddress: KEDA asks Prometheus for the age of the queue: give its address
{{- end }}
{{- end }}
{{- if not $workers }}
workers: nobody executes runs: give at least one
{{- else }}
{{- $routed := list "fanfold" }}
{{- range (default dict .Values.policy).routes }}{{ $routed = append $routed .queue }}{{ end }}
{{- range uniq $routed }}
{{- if not (has . $served) }}
workers: no worker takes runs from the queue {{ . }}, {{ ternary "where runs without a route go" "where a route of the policy sends runs" (eq . "fanfold") }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.doors" -}}
{{- if and .Values.ingress.enabled .Values.httpRoute.enabled }}
ingress, httpRoute: enable one of them
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
ingress.host: say under which name the API is reached
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
httpRoute.parentRefs: name the Gateway
{{- end }}
{{- $monitor := .Values.monitoring.serviceMonitor }}
{{- if and $monitor.enabled .Values.networkPolicies.enabled (not .Values.networkPolicies.metrics.from) }}
networkPolicies.metrics.from: nobody may reach the metrics, and monitoring.serviceMonitor is enabled: say where Prometheus is
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.images" -}}
{{- $docker := .Values.sandboxes.docker }}
{{- $images := dict "image" .Values.image "database.bundled.image" .Values.database.bundled.image "redis.bundled.image" .Values.redis.bundled.image "sandboxes.docker.dind.image" $docker.dind.image }}
{{- range $key, $image := $images }}
{{- if and (eq $image.tag "latest") (not $image.digest) }}
{{ $key }}.tag: latest is another image each day: give a version or a digest
{{- else if and (ne $key "image") (not $image.tag) (not $image.digest) }}
{{ $key }}: give a tag or a digest
{{- end }}
{{- end }}
{{- if and $docker.image (or (hasSuffix ":latest" $docker.image) (not (regexMatch "(:[^/]+|@sha256:[0-9a-f]+)$" $docker.image))) }}
sandboxes.docker.image: latest is another image each day: give a version or a digest
{{- end }}
{{- end -}}

{{- define "fanfold.refusals.variables" -}}
{{- $set := list "FANFOLD_HOME" "HOME" "FANFOLD_DATABASE_URL" "FANFOLD_REDIS_URL" "FANFOLD_SECRET_KEY" "FANFOLD_ARTIFACTS_URL" "FANFOLD_LOG_LEVEL" "FANFOLD_LOG_FORMAT" "FANFOLD_WEBHOOK_ALLOW_PRIVATE" "FANFOLD_METRICS_ADDR" "FANFOLD_POLICY" "FANFOLD_PRICES" "FANFOLD_PROVIDER" "FANFOLD_DOCKER_IMAGE" "FANFOLD_MAX_UPLOAD" "FANFOLD_UPLOADS" "FANFOLD_API_GIT" "FANFOLD_METRICS_PUBLIC" "FANFOLD_CORS_ORIGINS" "FANFOLD_WORKER_CONCURRENCY" "DOCKER_HOST" "DOCKER_TLS_VERIFY" "DOCKER_CERT_PATH" }}
{{- $given := dict "extraEnv" .Values.extraEnv "api.extraEnv" .Values.api.extraEnv "controller.extraEnv" .Values.controller.extraEnv }}
{{- range $name, $worker := fromYaml (include "fanfold.workers" .) }}{{ $_ := set $given (printf "workers.%s.extraEnv" $name) $worker.extraEnv }}{{ end }}
{{- range $key, $variables := $given }}
{{- range $variables }}
{{- if has .name $set }}
{{ $key }}: {{ .name }} is set by the chart, from a value of its own
{{- end }}
{{- if and (has .name (list "REQUESTS_CA_BUNDLE" "CURL_CA_BUNDLE")) (include "fanfold.usesDocker" $) (ne $.Values.sandboxes.docker.engine "ssh") }}
{{ $key }}: with {{ .name }} the Docker client trusts that file and not the ca.pem of the engine: leave it out
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
