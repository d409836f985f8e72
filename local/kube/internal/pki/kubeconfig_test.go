package pki

import (
	"bytes"
	"net"
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"trueup.dev/local/kube/internal/place"
)

const server = "https://127.0.0.1:6443"

func write(t *testing.T, dir place.Dir, server string) os.FileInfo {
	t.Helper()
	if err := WriteKubeconfig(dir, server); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestKubeconfigNeedsNoOtherFile(t *testing.T) {
	dir := newDir(t)
	if err := EnsureKubelet(dir, "real-1", net.IPv4(10, 200, 3, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir.Node(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeletKubeconfig(dir, server); err != nil {
		t.Fatal(err)
	}
	if info := write(t, dir, server); info.Mode().Perm() != 0o600 {
		t.Errorf("other users may read the key of the administrator: %v", info.Mode())
	}
	for name, user := range map[string]string{dir.Kubeconfig(): Admin, dir.Node("kubeconfig"): Kubelet} {
		config, err := clientcmd.BuildConfigFromFlags("", name)
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != server || config.Insecure || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
			t.Errorf("%s: %s", name, config)
		}
		for file, data := range map[string][]byte{
			Cert(dir, ClusterCA): config.CAData,
			Cert(dir, user):      config.CertData,
			Key(dir, user):       config.KeyData,
		} {
			if content, err := os.ReadFile(file); err != nil || !bytes.Equal(content, data) {
				t.Errorf("%s does not hold %s (%v)", name, file, err)
			}
		}
	}
}

func TestKubeconfigIsWrittenOnlyWhenItChanges(t *testing.T) {
	dir := newDir(t)
	first := write(t, dir, server)
	// A file that is written again is another file: it replaces the first one in one step.
	if !os.SameFile(first, write(t, dir, server)) {
		t.Error("the same content was written again")
	}
	if os.SameFile(first, write(t, dir, "https://127.0.0.1:7443")) {
		t.Error("a new address was not written")
	}
}
