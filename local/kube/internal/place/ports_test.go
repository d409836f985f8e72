package place

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// freePorts returns ports below the range from which the kernel chooses ports of connections, so that
// no other program gets one of them by chance while the test runs.
func freePorts(t *testing.T, count int) []int {
	t.Helper()
	var ports []int
	for port := 20000 + os.Getpid()%5000; port < 32000 && len(ports) < count; port++ {
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close()
		ports = append(ports, port)
	}
	if len(ports) < count {
		t.Fatal("no free ports")
	}
	return ports
}

func remember(t *testing.T, dir Dir, content string) {
	t.Helper()
	if err := os.WriteFile(dir.Ports(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func choose(t *testing.T, dir Dir) Ports {
	t.Helper()
	ports, err := dir.ChoosePorts()
	if err != nil {
		t.Fatal(err)
	}
	var remembered Ports
	content, err := os.ReadFile(dir.Ports())
	if err == nil {
		err = json.Unmarshal(content, &remembered)
	}
	if err != nil || remembered != ports {
		t.Errorf("%+v was chosen, %+v is remembered (%v)", ports, remembered, err)
	}
	if ports.API == ports.EtcdClient || ports.API == ports.EtcdPeer || ports.EtcdClient == ports.EtcdPeer {
		t.Errorf("a port was handed out twice: %+v", ports)
	}
	for _, port := range []int{ports.API, ports.EtcdClient, ports.EtcdPeer} {
		if port < 1 || port > 65535 {
			t.Errorf("not a port: %+v", ports)
		}
	}
	return ports
}

func TestPortsOfNewCluster(t *testing.T) { choose(t, newDir(t)) }

func TestRememberedPortsAreKept(t *testing.T) {
	dir, free := newDir(t), freePorts(t, 3)
	want := Ports{API: free[0], EtcdClient: free[1], EtcdPeer: free[2]}
	remember(t, dir, fmt.Sprintf(`{"api":%d,"etcd_client":%d,"etcd_peer":%d}`, free[0], free[1], free[2]))
	for range 2 {
		if got := choose(t, dir); got != want {
			t.Errorf("%+v became %+v", want, got)
		}
	}
}

func TestStoredPortThatIsReleasedSoonIsKept(t *testing.T) {
	patience = time.Minute
	defer func() { patience = 10 * time.Millisecond }()
	dir, free := newDir(t), freePorts(t, 3)
	remember(t, dir, fmt.Sprintf(`{"api":%d,"etcd_client":%d,"etcd_peer":%d}`, free[0], free[1], free[2]))
	dying, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", free[0]))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = dying.Close() })
	if got := choose(t, dir); got.API != free[0] {
		t.Errorf("port %d became %d", free[0], got.API)
	}
}

func TestPortOfAnotherProgramIsReplacedAlone(t *testing.T) {
	dir, free := newDir(t), freePorts(t, 3)
	other, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", free[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	remember(t, dir, fmt.Sprintf(`{"api":%d,"etcd_client":%d,"etcd_peer":%d}`, free[0], free[1], free[2]))
	got := choose(t, dir)
	if got.API != free[0] || got.EtcdPeer != free[2] || got.EtcdClient == free[1] {
		t.Errorf("%v became %+v", free, got)
	}
}

func TestUnusablePortsAreReplaced(t *testing.T) {
	free := freePorts(t, 1)[0]
	for name, content := range map[string]string{
		"one port for all":  fmt.Sprintf(`{"api":%d,"etcd_client":%d,"etcd_peer":%d}`, free, free, free),
		"ports are missing": fmt.Sprintf(`{"api":%d}`, free),
		"no such port":      fmt.Sprintf(`{"api":%d,"etcd_client":70000,"etcd_peer":-1}`, free),
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			remember(t, dir, content)
			if got := choose(t, dir); got.API != free {
				t.Errorf("the good port %d was replaced: %+v", free, got)
			}
		})
	}
}

func TestDamagedPortsFileIsNamed(t *testing.T) {
	dir := newDir(t)
	remember(t, dir, `{"api":`)
	if _, err := dir.ChoosePorts(); err == nil || !strings.Contains(err.Error(), dir.Ports()) {
		t.Errorf("no error that names the file: %v", err)
	}
}

// A port that the kernel also gives to outgoing connections could be taken while the cluster is down, and
// the address in kubeconfigs that were handed out would change.
func TestNewPortsAreNotThoseOfOutgoingConnections(t *testing.T) {
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(content), &first, &last); err != nil {
		t.Fatal(err)
	}
	ports := choose(t, Dir(t.TempDir()))
	for _, port := range []int{ports.API, ports.EtcdClient, ports.EtcdPeer} {
		if port >= first && port <= last {
			t.Errorf("%d is one of the kernel's own, %d to %d", port, first, last)
		}
	}
}
