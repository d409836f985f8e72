package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// Ports are the loopback ports of one cluster. They are stored so that the address in the kubeconfig
// stays the same across restarts.
type Ports struct {
	API        int `json:"api"`
	EtcdClient int `json:"etcd_client"`
	EtcdPeer   int `json:"etcd_peer"`
}

// ChoosePorts returns the stored ports; one that is missing or in use is replaced.
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

// New ports are below the range that Linux uses for outgoing connections (32768 and up). Within that
// range, any connection could take a stored port while the cluster is down.
const (
	lowest  = 20000
	highest = 32000
	tries   = 100
)

// patience is how long a stored port may still be in use: after a crash, the kernel closes the sockets of
// a component a moment after its process is gone.
var patience = 5 * time.Second

// listen prefers the wanted port, then a port in our range, and falls back to any free one.
func listen(wanted int) (net.Listener, error) {
	if wanted != 0 {
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			listener, err := listenAt(wanted)
			if err == nil {
				return listener, nil
			}
			if time.Now().After(end) {
				break
			}
		}
	}
	for range tries {
		if listener, err := listenAt(lowest + rand.IntN(highest-lowest)); err == nil {
			return listener, nil
		}
	}
	return listenAt(0)
}

func listenAt(port int) (net.Listener, error) {
	return net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
}
