package parts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
)

func newSet(t *testing.T, fast bool) Set {
	t.Helper()
	dir, err := place.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Set{
		Dir:   dir,
		Ports: place.Ports{API: 1001, EtcdClient: 1002, EtcdPeer: 1003},
		Self:  "/bin/trueup-kube",
		Kwok:  "/bin/trueup-kwok",
		Fast:  fast,
	}
}

func all(set Set) []Part {
	return []Part{set.Etcd(), set.APIServer(), set.ControllerManager(), set.Scheduler(), set.Simulator()}
}

// flags are the arguments as pairs; a flag without a value would be read together with the next one.
func flags(t *testing.T, part Part) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, arg := range part.Args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") {
			if arg != part.Name {
				t.Errorf("%s: the argument %q is no flag", part.Name, arg)
			}
			continue
		}
		if _, twice := found[name]; twice || !hasValue {
			t.Errorf("%s: %q is given twice or has no value", part.Name, arg)
		}
		found[name] = value
	}
	return found
}

func TestComponentsAreSubcommandsOfOneProgram(t *testing.T) {
	set := newSet(t, false)
	var names []string
	for _, part := range all(set) {
		names = append(names, part.Name)
		if part.Name == "kwok" {
			if part.Program != set.Kwok || slices.Contains(part.Args, "kwok") {
				t.Errorf("%+v", part)
			}
		} else if part.Program != set.Self || part.Args[0] != part.Name {
			t.Errorf("%+v", part)
		}
	}
	if want := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func TestFilesInCommandLinesAreThere(t *testing.T) {
	set := newSet(t, false)
	if err := pki.Ensure(set.Dir); err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteKubeconfig(set.Dir, set.Server()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(set.Dir.Stages(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, part := range all(set) {
		for name, value := range flags(t, part) {
			if !strings.HasPrefix(value, string(set.Dir)) {
				continue
			}
			used[value] = true
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s --%s: %v", part.Name, name, err)
			}
			// A key in place of a certificate would be exposed; a certificate in place of a key would not start.
			isKey := strings.Contains(name, "key")
			if isCert := filepath.Ext(value) == ".crt"; isCert && isKey || filepath.Ext(value) == ".key" && !isKey {
				t.Errorf("%s --%s=%s", part.Name, name, value)
			}
		}
	}
	for _, name := range []string{pki.APIServer, pki.KubeletClient, pki.Etcd, pki.EtcdClient} {
		if !used[pki.Cert(set.Dir, name)] || !used[pki.Key(set.Dir, name)] {
			t.Errorf("no component uses the pair %s", name)
		}
	}
	// Only authorities may sign, and only the supervisor's own client is the administrator.
	for _, key := range []string{pki.Key(set.Dir, pki.ClusterCA), pki.Key(set.Dir, pki.EtcdCA), pki.Key(set.Dir, pki.Admin)} {
		if used[key] {
			t.Errorf("a component gets %s", key)
		}
	}
}

func TestNothingListensBeyondLoopbackOrWithoutCertificates(t *testing.T) {
	set := newSet(t, false)
	etcd := flags(t, set.Etcd())
	for flag, want := range map[string]string{
		"listen-client-urls":          "https://127.0.0.1:1002",
		"advertise-client-urls":       "https://127.0.0.1:1002",
		"listen-peer-urls":            "https://127.0.0.1:1003",
		"initial-advertise-peer-urls": "https://127.0.0.1:1003",
		"initial-cluster":             "local=https://127.0.0.1:1003",
		"client-cert-auth":            "true",
		"peer-client-cert-auth":       "true",
		"trusted-ca-file":             pki.Cert(set.Dir, pki.EtcdCA),
		"peer-trusted-ca-file":        pki.Cert(set.Dir, pki.EtcdCA),
	} {
		if etcd[flag] != want {
			t.Errorf("etcd --%s=%s", flag, etcd[flag])
		}
	}
	api := flags(t, set.APIServer())
	for flag, want := range map[string]string{
		"bind-address":       "127.0.0.1",
		"secure-port":        "1001",
		"etcd-servers":       etcd["listen-client-urls"],
		"etcd-cafile":        pki.Cert(set.Dir, pki.EtcdCA),
		"client-ca-file":     pki.Cert(set.Dir, pki.ClusterCA),
		"anonymous-auth":     "false",
		"authorization-mode": "Node,RBAC",
	} {
		if api[flag] != want {
			t.Errorf("kube-apiserver --%s=%s", flag, api[flag])
		}
	}
	for _, part := range []Part{set.ControllerManager(), set.Scheduler()} {
		if port := flags(t, part)["secure-port"]; port != "0" {
			t.Errorf("%s listens on %q", part.Name, port)
		}
	}
	kwok := flags(t, set.Simulator())
	if kwok["server-address"] != "" || kwok["node-port"] != "0" {
		t.Errorf("kwok listens: %v", kwok)
	}
	if set.Server() != "https://127.0.0.1:1001" {
		t.Errorf("clients use %s", set.Server())
	}
}

func TestOnlyFastClustersDoNotWaitForTheDisk(t *testing.T) {
	for _, fast := range []bool{false, true} {
		if _, unsafe := flags(t, newSet(t, fast).Etcd())["unsafe-no-fsync"]; unsafe != fast {
			t.Errorf("fast %t: unsafe %t", fast, unsafe)
		}
	}
}

func TestSimulatorPlaysSimulatedNodesOnly(t *testing.T) {
	kwok := flags(t, newSet(t, false).Simulator())
	want := "trueup.dev/node-class=simulated,!simulate.trueup.dev/lost"
	if kwok["manage-all-nodes"] != "false" || kwok["manage-nodes-with-label-selector"] != want {
		t.Errorf("it simulates %q", kwok["manage-nodes-with-label-selector"])
	}
}
