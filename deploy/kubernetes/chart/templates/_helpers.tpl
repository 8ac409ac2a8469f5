{{- define "eigentime.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "eigentime.labels" -}}
app.kubernetes.io/name: eigentime
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The nodes that the image is for. */ -}}
{{- define "eigentime.nodes" -}}
kubernetes.io/os: linux
kubernetes.io/arch: amd64
{{- end }}

{{- /* The labels of one component: (list . "installer") */ -}}
{{- define "eigentime.selector" -}}
app.kubernetes.io/name: eigentime
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* The permissions of all our containers: none but to compute. */ -}}
{{- define "eigentime.restricted" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* A pod's token for the API server, given only to the containers that need it. */ -}}
{{- define "eigentime.token" -}}
sources:
  - serviceAccountToken: {path: token, expirationSeconds: 3600}
  - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
  - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}

{{- /* The Job that uninstalls, and its permissions: (dict "root" . "annotations" (dict ...)) */ -}}
{{- define "eigentime.uninstall" -}}
{{- $root := .root }}
{{- $anywhere := printf "name: eigentime-uninstall\nlabels:\n%s\nannotations:\n%s" (include "eigentime.labels" $root | indent 2) (toYaml .annotations | indent 2) }}
{{- $metadata := printf "namespace: %s\n%s" $root.Release.Namespace $anywhere }}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{- $metadata | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- $metadata | nindent 2 }}
rules:
  - apiGroups: [apps]
    resources: [daemonsets]
    resourceNames: [eigentime-installer]
    verbs: [get, patch]
  - apiGroups: [""]
    resources: [pods]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- $metadata | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: eigentime-uninstall
subjects:
  - kind: ServiceAccount
    name: eigentime-uninstall
    namespace: {{ $root.Release.Namespace }}
---
# It queries whether there are timelines, and which nodes have the runtime.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{- $anywhere | nindent 2 }}
rules:
  - apiGroups: [eigentime.io]
    resources: [timelines, timechaos]
    verbs: [list]
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{- $anywhere | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: eigentime-uninstall
subjects:
  - kind: ServiceAccount
    name: eigentime-uninstall
    namespace: {{ $root.Release.Namespace }}
---
apiVersion: batch/v1
kind: Job
metadata: {{- $metadata | nindent 2 }}
spec:
  backoffLimit: 0
  template:
    metadata:
      labels: {{- include "eigentime.selector" (list $root "uninstall") | nindent 8 }}
    spec:
      serviceAccountName: eigentime-uninstall
      automountServiceAccountToken: false
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      restartPolicy: Never
      # On a node that responds.
      nodeSelector: {{- include "eigentime.nodes" $root | nindent 8 }}
      tolerations:
        - {key: node-role.kubernetes.io/control-plane, operator: Exists}
      containers:
        - name: uninstall
          image: {{ include "eigentime.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: [uninstall-everywhere, --daemonset=eigentime-installer]
          env:
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext: {{- include "eigentime.restricted" $root | nindent 12 }}
          resources:
            requests: {cpu: 10m, memory: 32Mi}
          volumeMounts:
            - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
      volumes:
        - name: token
          projected: {{- include "eigentime.token" $root | nindent 12 }}
{{- end }}
