package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
	"trueup.dev/local/kube/internal/seed"
)

// cniFolders are where distributions install network plugins.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

func (n *Node) writeConfigs() error {
	plugins, err := findPlugins()
	if err != nil {
		return err
	}
	network, err := n.networkConfig()
	if err != nil {
		return err
	}
	files := map[string]string{
		n.containerdConfig():                 n.containerdText(plugins),
		n.dir.Node("cni", "trueup.conflist"): network,
		n.kubeletConfig():                    n.kubeletText(),
	}
	for name, content := range files {
		if err := place.WriteFile(name, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func findPlugins() (string, error) {
	for _, folder := range cniFolders {
		if _, err := os.Stat(filepath.Join(folder, "bridge")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("no network plugins in %v; install containernetworking-plugins", cniFolders)
}

// containerdText restricts OOM score adjustment, because a sandbox would not start on machines that do
// not let us lower the score.
func (n *Node) containerdText(plugins string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`, n.dir.Node("containerd"), filepath.Join(n.runFolder(), "state"), n.socket(), pauseImage, plugins, n.dir.Node("cni"))
}

// networkConfig gives pods addresses on the bridge and no route out of the machine.
func (n *Node) networkConfig() (string, error) {
	type object = map[string]any
	content, err := json.MarshalIndent(object{
		"cniVersion": "0.4.0",
		"name":       "trueup",
		"plugins": []object{
			{
				"type": "bridge", "bridge": n.network.Bridge, "isGateway": true, "ipMasq": false,
				"ipam": object{
					"type":    "host-local",
					"dataDir": n.dir.Node("addresses"),
					"ranges":  [][]object{{{"subnet": n.network.Subnet}}},
					"routes":  []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "loopback"},
		},
	}, "", "  ")
	return string(content), err
}

// podPIDs is how many processes and threads a pod may have: plenty for a JVM, too few for a fork bomb to
// hurt the machine. Kubernetes has no field for it in a pod.
const podPIDs = 2048

// kubeletText is the kubelet's configuration. Logs are in a separate folder, because a kubelet removes
// unknown files from a shared one; there are no reservations and no early evictions, because the
// developer's machine is rarely empty; and images are never garbage collected, because the samples
// cannot be pulled again.
func (n *Node) kubeletText() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
failSwapOn: false
containerRuntimeEndpoint: unix://%s
address: %s
port: %d
healthzPort: 0
podLogsDir: %q
volumePluginDir: %q
authentication:
  anonymous: { enabled: false }
  webhook: { enabled: true }
  x509: { clientCAFile: %q }
authorization: { mode: Webhook }
tlsCertFile: %q
tlsPrivateKeyFile: %q
registerWithTaints:
  - { key: %s, value: %s, effect: NoSchedule }
imageGCHighThresholdPercent: 100
podPidsLimit: %d
evictionHard:
  memory.available: 64Mi
  nodefs.available: 1%%
  imagefs.available: 1%%
`, n.cgroup(), n.socket(), n.network.gateway(), port, n.dir.Node("logs"), n.dir.Node("plugins"),
		pki.Cert(n.dir, pki.ClusterCA), pki.Cert(n.dir, pki.Kubelet), pki.Key(n.dir, pki.Kubelet), seed.ClassLabel, seed.ClassReal, podPIDs)
}
