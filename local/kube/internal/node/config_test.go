package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
)

// newNode is a node in a folder whose name must be quoted in every file.
func newNode(t *testing.T) *Node {
	t.Helper()
	dir, err := place.Make(filepath.Join(t.TempDir(), `a "quoted" folder: #1`))
	if err != nil {
		t.Fatal(err)
	}
	return &Node{
		dir:     dir,
		set:     parts.Set{Dir: dir, Ports: place.Ports{API: 1001}},
		tag:     tag(dir),
		network: network{Bridge: bridge(tag(dir)), Subnet: "10.200.3.0/24"},
		kubelet: "/bin/trueup-kubelet",
	}
}

func TestKubeletUnderstandsItsConfiguration(t *testing.T) {
	node := newNode(t)
	var config kubelet.KubeletConfiguration
	// Strict: a field that the kubelet does not know would be ignored silently.
	if err := yaml.UnmarshalStrict([]byte(node.kubeletText()), &config); err != nil {
		t.Fatalf("%v in\n%s", err, node.kubeletText())
	}
	if config.Address != "10.200.3.1" || config.Port != 10250 || config.CgroupRoot != "/trueup-"+node.tag {
		t.Errorf("it is not this cluster's own: %s:%d, %s", config.Address, config.Port, config.CgroupRoot)
	}
	if *config.Authentication.Anonymous.Enabled || !*config.Authentication.Webhook.Enabled || config.Authorization.Mode != kubelet.KubeletAuthorizationModeWebhook {
		t.Errorf("anyone on this machine may run commands in pods: %+v", config.Authentication)
	}
	for name, file := range map[string]string{
		config.Authentication.X509.ClientCAFile: pki.Cert(node.dir, pki.ClusterCA),
		config.TLSCertFile:                      pki.Cert(node.dir, pki.Kubelet),
		config.TLSPrivateKeyFile:                pki.Key(node.dir, pki.Kubelet),
		config.PodLogsDir:                       node.dir.Node("logs"),
		config.ContainerRuntimeEndpoint:         "unix://" + node.socket(),
	} {
		if name != file {
			t.Errorf("%s instead of %s", name, file)
		}
	}
	if len(config.RegisterWithTaints) != 1 || config.RegisterWithTaints[0].ToString() != "trueup.dev/node-class=real:NoSchedule" {
		t.Errorf("pods that do not ask for it go there: %v", config.RegisterWithTaints)
	}
	if *config.PodPidsLimit != podPIDs {
		t.Errorf("a pod may have %d processes", *config.PodPidsLimit)
	}
	if config.EvictionHard["nodefs.available"] != "1%" || config.EvictionHard["imagefs.available"] != "1%" || *config.ImageGCHighThresholdPercent != 100 {
		t.Errorf("%v", config.EvictionHard)
	}
}

func TestContainerdSharesNothingWithTheMachine(t *testing.T) {
	node := newNode(t)
	values := map[string][]string{}
	for _, line := range strings.Split(node.containerdText("/usr/lib/cni"), "\n") {
		if name, value, isSetting := strings.Cut(strings.TrimSpace(line), " = "); isSetting {
			var text string
			if strings.HasPrefix(value, `"`) {
				if err := json.Unmarshal([]byte(value), &text); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			} else {
				text = value
			}
			values[name] = append(values[name], text)
		}
	}
	for name, want := range map[string]string{
		"version":       "2",
		"root":          node.dir.Node("containerd"),
		"state":         "/run/trueup/" + node.tag + "/state",
		"address":       node.socket(),
		"sandbox_image": pauseImage,
		"bin_dir":       "/usr/lib/cni",
		"conf_dir":      node.dir.Node("cni"),
	} {
		if !slices.Equal(values[name], []string{want}) {
			t.Errorf("%s is %q", name, values[name])
		}
	}
	if part := node.Containerd(); !slices.Equal(part.Args, []string{"--config=" + node.dir.Node("containerd.toml")}) {
		t.Errorf("%+v", part)
	}
}

func TestPodsGetAddressesOfTheBridge(t *testing.T) {
	node := newNode(t)
	text, err := node.networkConfig()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CNIVersion string `json:"cniVersion"`
		Name       string `json:"name"`
		Plugins    []struct {
			Type      string `json:"type"`
			Bridge    string `json:"bridge"`
			IsGateway bool   `json:"isGateway"`
			IPMasq    bool   `json:"ipMasq"`
			IPAM      struct {
				Type    string `json:"type"`
				DataDir string `json:"dataDir"`
				Ranges  [][]struct {
					Subnet string `json:"subnet"`
				} `json:"ranges"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugins) != 2 || config.Plugins[1].Type != "loopback" {
		t.Fatalf("%+v", config)
	}
	plugin := config.Plugins[0]
	if plugin.Type != "bridge" || plugin.Bridge != "tu-"+node.tag || !plugin.IsGateway || plugin.IPMasq {
		t.Errorf("%+v", plugin)
	}
	if plugin.IPAM.Type != "host-local" || plugin.IPAM.DataDir != node.dir.Node("addresses") || plugin.IPAM.Ranges[0][0].Subnet != "10.200.3.0/24" {
		t.Errorf("%+v", plugin.IPAM)
	}
}

func TestKubeletIsTheNodeOfThisCluster(t *testing.T) {
	node := newNode(t)
	part := node.Kubelet()
	for _, want := range []string{
		"--config=" + node.dir.Node("kubelet.yaml"),
		"--kubeconfig=" + node.dir.Node("kubeconfig"),
		"--hostname-override=real-1",
		"--node-ip=10.200.3.1",
		"--node-labels=trueup.dev/node-class=real",
	} {
		if !slices.Contains(part.Args, want) {
			t.Errorf("no %s in %q", want, part.Args)
		}
	}
}

func TestPluginsAreFoundWhereTheyAre(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "bridge"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	saved := cniFolders
	t.Cleanup(func() { cniFolders = saved })
	cniFolders = []string{"/no/such/folder", empty, full}
	if found, err := findPlugins(); err != nil || found != full {
		t.Errorf("%s: %v", found, err)
	}
	cniFolders = []string{empty}
	if found, err := findPlugins(); err == nil || !strings.Contains(err.Error(), "containernetworking-plugins") {
		t.Errorf("%s: %v", found, err)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	folder := t.TempDir()
	dir := newDir(t)
	set := parts.Set{Dir: dir, Self: filepath.Join(folder, "trueup-kube")}
	for _, program := range []string{"trueup-kubelet", "trueup-sample"} {
		if _, err := New(dir, set); err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("%s is not reported as missing: %v", program, err)
		}
		// A cluster that never had a node has nothing to clean.
		if _, err := os.Stat(dir.Node()); err == nil {
			t.Error("files were created for a node that cannot exist")
		}
		if err := os.WriteFile(filepath.Join(folder, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(dir, set); err != nil {
		t.Error(err)
	}
}
