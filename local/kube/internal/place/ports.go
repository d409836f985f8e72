package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// Ports are the loopback ports of one cluster. They are remembered so that the address in the
// kubeconfig stays the same over restarts.
type Ports struct {
	API        int `json:"api"`
	EtcdClient int `json:"etcd_client"`
	EtcdPeer   int `json:"etcd_peer"`
}

// ChoosePorts returns the remembered ports; one that is missing or taken by someone else is replaced.
func (d Dir) ChoosePorts() (Ports, error) {
	var ports Ports
	content, err := os.ReadFile(d.Ports())
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return ports, err
	default:
		if err := json.Unmarshal(content, &ports); err != nil {
			return ports, fmt.Errorf("%s is damaged, remove it to choose new ports: %w", d.Ports(), err)
		}
	}

	// All listeners stay open until every port is chosen, so that no port is handed out twice.
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for _, port := range []*int{&ports.API, &ports.EtcdClient, &ports.EtcdPeer} {
		listener, err := listen(*port)
		if err != nil {
			return ports, fmt.Errorf("no free loopback port: %w", err)
		}
		held = append(held, listener)
		*port = listener.Addr().(*net.TCPAddr).Port
	}

	content, err = json.Marshal(ports)
	if err != nil {
		return ports, err
	}
	return ports, WriteFile(d.Ports(), content, 0o600)
}

// listen prefers the wanted port and falls back to any free one.
func listen(wanted int) (net.Listener, error) {
	if wanted != 0 {
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", wanted)); err == nil {
			return listener, nil
		}
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}
