package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	"github.com/holdfast-io/holdfast/integration/iferr"
	"github.com/holdfast-io/holdfast/integration/testpki"
	"github.com/holdfast-io/holdfast/lock/config"
	"github.com/holdfast-io/holdfast/lock/policy"
)

const folder = "../../cmd/reaper/deploy"

// kinds maps each apiVersion and kind that manifests may contain to a function that returns an
// empty object.
var kinds = map[string]func() metav1.Object{
	"v1 ConfigMap":                            func() metav1.Object { return new(corev1.ConfigMap) },
	"v1 ServiceAccount":                       func() metav1.Object { return new(corev1.ServiceAccount) },
	"v1 Service":                              func() metav1.Object { return new(corev1.Service) },
	"apps/v1 Deployment":                      func() metav1.Object { return new(appsv1.Deployment) },
	"batch/v1 CronJob":                        func() metav1.Object { return new(batchv1.CronJob) },
	"policy/v1 PodDisruptionBudget":           func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":      func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"monitoring.coreos.com/v1 PodMonitor":     func() metav1.Object { return new(monitoringv1.PodMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() metav1.Object { return new(monitoringv1.PrometheusRule) },
}

// manifest decodes a file of the folder kubernetes.
func manifest(t *testing.T, name string) map[string]metav1.Object {
	t.Helper()
	return decode(t, name, []byte(read(t, folder, "kubernetes", name)))
}

// decode decodes objects, each by the schema of its kind. Unknown and repeated keys are errors.
func decode(t *testing.T, name string, data []byte) map[string]metav1.Object {
	t.Helper()
	objects := map[string]metav1.Object{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		iferr.Fatal(t, err)
		var about metav1.TypeMeta
		iferr.Fatal(t, yaml.Unmarshal(text, &about))
		kind := about.APIVersion + " " + about.Kind
		if kinds[kind] == nil {
			t.Fatalf("%s: unknown kind %q", name, kind)
		}
		object := kinds[kind]()
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			t.Errorf("%s: %s: %v", name, kind, err)
		}
		objects[about.Kind] = object
	}
}

// TestManifestsAreStrict: the decoder of the manifests refuses an unknown key.
func TestManifestsAreStrict(t *testing.T) {
	if err := yaml.UnmarshalStrict([]byte("spec: {replica: 2}"), new(appsv1.Deployment)); err == nil {
		t.Error("replica is no key")
	}
}

func TestDeployment(t *testing.T) {
	objects := manifest(t, "deployment.yaml")
	d := objects["Deployment"].(*appsv1.Deployment)
	pod := d.Spec.Template
	checkPod(t, pod)
	checkConfig(t, objects["ConfigMap"].(*corev1.ConfigMap), pod, "0.0.0.0:9180", objects["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.Egress)
	for name, selector := range map[string]*metav1.LabelSelector{
		"Deployment":          d.Spec.Selector,
		"PodDisruptionBudget": objects["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget).Spec.Selector,
		"NetworkPolicy":       &objects["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.PodSelector,
	} {
		checkSelects(t, name, selector, pod.Labels)
	}
	if *d.Spec.Replicas < 2 {
		t.Error("one replica has none to take over")
	}
	if got := pod.Spec.ServiceAccountName; got != objects["ServiceAccount"].GetName() {
		t.Errorf("service account %q", got)
	}
	c := pod.Spec.Containers[0]
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("%s: the probe is %+v", path, probe.HTTPGet)
		}
	}
	service := objects["Service"].(*corev1.Service)
	checkSelects(t, "Service", metav1.SetAsLabelSelector(service.Spec.Selector), pod.Labels)
	if p := service.Spec.Ports[0]; p.TargetPort.StrVal != c.Ports[0].Name || p.Port != c.Ports[0].ContainerPort {
		t.Errorf("the Service's port is %+v", p)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service does not name each replica: %+v", service.Spec)
	}
	in := objects["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.Ingress
	if len(in) != 1 || len(in[0].From) != 1 || in[0].Ports[0].Port.IntVal != c.Ports[0].ContainerPort {
		t.Errorf("admitted: %+v", in)
	}
}

func TestCronJob(t *testing.T) {
	objects := manifest(t, "cronjob.yaml")
	job := objects["CronJob"].(*batchv1.CronJob)
	pod := job.Spec.JobTemplate.Spec.Template
	checkPod(t, pod)
	checkConfig(t, objects["ConfigMap"].(*corev1.ConfigMap), pod, "", objects["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.Egress)
	n := objects["NetworkPolicy"].(*networkingv1.NetworkPolicy)
	checkSelects(t, "NetworkPolicy", &n.Spec.PodSelector, pod.Labels)
	if len(n.Spec.Ingress) != 0 || len(n.Spec.PolicyTypes) != 2 {
		t.Errorf("admitted: %+v", n.Spec)
	}
	iferr.Error(t, iferr.Of(policy.ParseSchedule(job.Spec.Schedule)))
	if args := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.HasSuffix(args, " --once") {
		t.Errorf("arguments %q", args)
	}
	if job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%v, %v", job.Spec.ConcurrencyPolicy, pod.Spec.RestartPolicy)
	}
	// The Deployment's selector must not match the CronJob's pods.
	d := manifest(t, "deployment.yaml")["Deployment"].(*appsv1.Deployment)
	if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err != nil || selector.Matches(labels.Set(pod.Labels)) {
		t.Errorf("the deployment selects the job's pods too: %v", err)
	}
}

func checkSelects(t *testing.T, what string, s *metav1.LabelSelector, pod map[string]string) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || !selector.Matches(labels.Set(pod)) {
		t.Errorf("%s selects no pod labelled %v: %v", what, pod, err)
	}
}

// checkPod checks the main demands of Kubernetes' restricted pod security standard. The pod must
// also have a memory limit, no service account token, secrets that others cannot read, and
// read-only mounts.
func checkPod(t *testing.T, pod corev1.PodTemplateSpec) {
	t.Helper()
	s, c := pod.Spec.SecurityContext, pod.Spec.Containers[0]
	switch {
	case !*s.RunAsNonRoot, *s.RunAsUser == 0, s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("pod: %+v", s)
	case *c.SecurityContext.AllowPrivilegeEscalation, !*c.SecurityContext.ReadOnlyRootFilesystem, c.SecurityContext.Capabilities.Drop[0] != "ALL":
		t.Errorf("container: %+v", c.SecurityContext)
	case c.Resources.Limits.Memory().IsZero(), *pod.Spec.AutomountServiceAccountToken:
		t.Errorf("limits %v, token %v", c.Resources.Limits, *pod.Spec.AutomountServiceAccountToken)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && (*v.Secret.DefaultMode&0o007 != 0 || *s.FSGroup == 0) {
			t.Errorf("secret %s has mode %o, which the reaper refuses", v.Name, *v.Secret.DefaultMode)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || !m.ReadOnly {
			t.Errorf("volume %+v", m)
		}
	}
}

// checkConfig parses the configuration with the reaper's parser, as it is and with its commented
// examples. The pod must mount the configuration and the files that the configuration names. The
// egress rules must allow the servers' ports.
func checkConfig(t *testing.T, m *corev1.ConfigMap, pod corev1.PodTemplateSpec, listen string, out []networkingv1.NetworkPolicyEgressRule) {
	t.Helper()
	open := map[string]bool{}
	for _, p := range out[0].Ports {
		open[p.Port.String()] = true
	}
	secrets := secrets(t, pod)
	examples := strings.NewReplacer("  #auth:", "  auth:", "  #tls:", "  tls:", ":2181", ":2281")
	for _, text := range []string{m.Data["config.yaml"], examples.Replace(m.Data["config.yaml"])} {
		for at, folder := range secrets {
			text = strings.ReplaceAll(text, at+"/", folder+"/")
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		iferr.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
		c, err := config.Load(file)
		iferr.Fatal(t, err)
		if c.Status.Listen != listen {
			t.Errorf("it listens on %q", c.Status.Listen)
		}
		for _, server := range c.ZooKeeper.Servers {
			if _, port, err := net.SplitHostPort(server); err != nil || !open[port] {
				t.Errorf("the NetworkPolicy does not let it reach %s: %v", server, err)
			}
		}
		if _, err := c.Options(t.Context()); err != nil { // also reads the files that the configuration names
			t.Error(err)
		}
		if example := strings.Contains(text, ":2281"); example != (c.ZooKeeper.Auth != nil) || example != (c.ZooKeeper.TLS != nil) {
			t.Errorf("auth %v, TLS %v", c.ZooKeeper.Auth, c.ZooKeeper.TLS)
		}
	}
	found := false
	for _, v := range pod.Spec.Volumes {
		found = found || v.ConfigMap != nil && v.ConfigMap.Name == m.Name
	}
	if !found {
		t.Errorf("no volume has the ConfigMap %s", m.Name)
	}
	args := pod.Spec.Containers[0].Args
	if args[0] != "--config" || filepath.Dir(args[1]) != pod.Spec.Containers[0].VolumeMounts[0].MountPath || m.Data[filepath.Base(args[1])] == "" {
		t.Errorf("arguments %q", args)
	}
}

// secrets creates local folders for the pod's secrets, with the contents that the manifests
// describe and the file modes that Kubernetes would set. It returns the folders by mount path.
func secrets(t *testing.T, pod corev1.PodTemplateSpec) map[string]string {
	t.Helper()
	authority := testpki.New(t)
	pair := authority.Issue(t, "reaper")
	contents := map[string]map[string][]byte{
		"holdfast-reaper":     {"password": []byte("secret")},
		"holdfast-reaper-tls": {"ca.crt": authority.PEM, "tls.crt": pair.Cert, "tls.key": pair.Key},
	}
	folders := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		dir := t.TempDir()
		for name, data := range contents[v.Secret.SecretName] {
			iferr.Fatal(t, os.WriteFile(filepath.Join(dir, name), data, os.FileMode(*v.Secret.DefaultMode)))
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				folders[m.MountPath] = dir
			}
		}
	}
	return folders
}
