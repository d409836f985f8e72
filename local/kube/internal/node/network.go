package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"trueup.dev/local/kube/internal/place"
)

// network is the bridge of the node's pods. The node has the first address.
type network struct {
	Bridge string `json:"bridge"`
	Subnet string `json:"subnet"`
}

func bridge(tag string) string { return "tu-" + tag }

func (n network) gateway() net.IP {
	_, subnet, err := net.ParseCIDR(n.Subnet)
	if err != nil || subnet.IP.To4() == nil {
		return nil
	}
	address := subnet.IP.To4()
	return net.IPv4(address[0], address[1], address[2], address[3]+1)
}

// chooseNetwork returns the stored network, or one whose addresses are unused on this machine.
func chooseNetwork(dir place.Dir, tag string) (network, error) {
	var chosen network
	name := dir.Node("network.json")
	content, err := os.ReadFile(name)
	if err == nil && json.Unmarshal(content, &chosen) == nil && chosen.gateway() != nil {
		return chosen, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return chosen, err
	}
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return chosen, fmt.Errorf("cannot list the addresses of this machine: %w", err)
	}
	chosen, err = freeNetwork(tag, taken)
	if err != nil {
		return chosen, err
	}
	if err := os.MkdirAll(dir.Node(), 0o700); err != nil {
		return chosen, err
	}
	content, err = json.Marshal(chosen)
	if err != nil {
		return chosen, err
	}
	return chosen, place.WriteFile(name, content, 0o600)
}

func freeNetwork(tag string, taken []net.Addr) (network, error) {
	for try := range 256 {
		// A rarely used part of 10/8, spread by the cluster's tag.
		subnet := fmt.Sprintf("10.%d.%d.0/24", 192+int(tag[0])%16, (int(tag[1])*16+int(tag[2])+try)%256)
		if isFree(subnet, taken) {
			return network{Bridge: bridge(tag), Subnet: subnet}, nil
		}
	}
	return network{}, errors.New("no free subnet for a real node: too many local clusters on this machine")
}

func isFree(subnet string, taken []net.Addr) bool {
	_, wanted, err := net.ParseCIDR(subnet)
	if err != nil {
		return false
	}
	for _, address := range taken {
		_, other, err := net.ParseCIDR(address.String())
		if err == nil && (wanted.Contains(other.IP) || other.Contains(wanted.IP)) {
			return false
		}
	}
	return true
}

// make creates the bridge before the first pod, because the node's own address is on it.
func (n network) make() error {
	if _, err := net.InterfaceByName(n.Bridge); err != nil {
		if err := ip("link", "add", n.Bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := ip("address", "replace", n.gateway().String()+"/24", "dev", n.Bridge); err != nil {
		return err
	}
	return ip("link", "set", n.Bridge, "up")
}

func removeBridge(name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil
	}
	return ip("link", "delete", name)
}

func ip(args ...string) error {
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("`ip %s` failed: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
