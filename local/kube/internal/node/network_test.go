package node

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"trueup.dev/local/kube/internal/place"
)

func newDir(t *testing.T) place.Dir {
	t.Helper()
	dir, err := place.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func addresses(t *testing.T, list ...string) []net.Addr {
	t.Helper()
	var found []net.Addr
	for _, text := range list {
		ip, subnet, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, &net.IPNet{IP: ip, Mask: subnet.Mask})
	}
	return found
}

func TestGatewayIsTheFirstAddress(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.200.3.0/24": "10.200.3.1",
		"10.200.3.9/24": "10.200.3.1",
		"":              "<nil>",
		"10.200.3.0":    "<nil>",
		"fd00::/64":     "<nil>",
	} {
		if got := (network{Subnet: subnet}).gateway(); got.String() != want {
			t.Errorf("%q: %s", subnet, got)
		}
	}
}

func TestSubnetIsFreeWhereNoInterfaceHasAPartOfIt(t *testing.T) {
	taken := addresses(t, "127.0.0.1/8", "10.200.3.1/24", "10.201.0.5/16", "10.202.7.129/25", "fe80::1/64")
	for subnet, want := range map[string]bool{
		"10.200.4.0/24": true,
		"10.200.3.0/24": false,
		"10.201.9.0/24": false,
		"10.202.7.0/24": false,
		"10.202.8.0/24": true,
		"nonsense":      false,
	} {
		if got := isFree(subnet, taken); got != want {
			t.Errorf("%s: %t", subnet, got)
		}
	}
}

func TestSubnetsAreTriedUntilOneIsFree(t *testing.T) {
	const tag = "00112233"
	first, err := freeNetwork(tag, nil)
	if err != nil || first.Bridge != "tu-"+tag {
		t.Fatalf("%+v: %v", first, err)
	}
	second, err := freeNetwork(tag, addresses(t, first.gateway().String()+"/24"))
	if err != nil || second.Subnet == first.Subnet {
		t.Errorf("%+v: %v", second, err)
	}
	if none, err := freeNetwork(tag, addresses(t, "10.0.0.1/8")); err == nil {
		t.Errorf("%+v", none)
	}
}

func TestChosenNetworkIsRemembered(t *testing.T) {
	dir := newDir(t)
	first, err := chooseNetwork(dir, tag(dir))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.Subnet, "10.") || first.gateway() == nil {
		t.Errorf("%+v", first)
	}
	// Also where its own bridge now has its address.
	remembered := network{Bridge: "tu-other", Subnet: "127.0.0.0/24"}
	content, err := json.Marshal(remembered)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Node("network.json"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := chooseNetwork(dir, tag(dir)); err != nil || again != remembered {
		t.Errorf("%+v: %v", again, err)
	}
	for _, damaged := range []string{"", "{", `{"bridge":"tu-other","subnet":"nonsense"}`} {
		if err := os.WriteFile(dir.Node("network.json"), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := chooseNetwork(dir, tag(dir)); err != nil || again.Bridge != first.Bridge || again.gateway() == nil {
			t.Errorf("%q: %+v: %v", damaged, again, err)
		}
	}
}

func TestNamesOfOneClusterFitTheKernel(t *testing.T) {
	first, second := place.Dir("/clusters/"+strings.Repeat("long", 30)), place.Dir("/clusters/second")
	for _, dir := range []place.Dir{first, second} {
		node := &Node{dir: dir, tag: tag(dir)}
		if name := bridge(node.tag); len(name) > 15 {
			t.Errorf("a device cannot be called %s", name)
		}
		if socket := node.socket(); len(socket) > 107 {
			t.Errorf("a socket cannot be %s", socket)
		}
	}
	if tag(first) == tag(second) || tag(first) != tag(first) {
		t.Error("two clusters share their devices, or one does not find its own")
	}
}
