// Package parts builds the command line of every component.
//
// Everything listens on loopback only and requires a client certificate; what needs no port has none.
package parts

import (
	"fmt"
	"os"
	"path/filepath"

	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
	"trueup.dev/local/kube/internal/seed"
)

// Part is one program with its arguments.
type Part struct {
	Name    string
	Program string
	Args    []string
}

// Set is what the command lines depend on.
type Set struct {
	Dir   place.Dir
	Ports place.Ports
	// Self is this multi-call program; Kwok is next to it.
	Self string
	Kwok string
	// Fast trades durability for speed, in tests.
	Fast bool
}

// NewSet finds the programs.
func NewSet(dir place.Dir, ports place.Ports, fast bool) (Set, error) {
	self, err := os.Executable()
	if err != nil {
		return Set{}, fmt.Errorf("cannot find this program: %w", err)
	}
	kwok := filepath.Join(filepath.Dir(self), "trueup-kwok")
	if _, err := os.Stat(kwok); err != nil {
		return Set{}, fmt.Errorf("trueup-kwok must be next to trueup-kube; build both again: %w", err)
	}
	return Set{Dir: dir, Ports: ports, Self: self, Kwok: kwok, Fast: fast}, nil
}

// Server is the address that clients use.
func (s Set) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", s.Ports.API) }

// EtcdEndpoint is the address that the API server uses.
func (s Set) EtcdEndpoint() string { return fmt.Sprintf("https://127.0.0.1:%d", s.Ports.EtcdClient) }

func (s Set) component(name string, args ...string) Part {
	return Part{Name: name, Program: s.Self, Args: append([]string{name}, args...)}
}

// Etcd is the database of the API server.
func (s Set) Etcd() Part {
	peer := fmt.Sprintf("https://127.0.0.1:%d", s.Ports.EtcdPeer)
	args := []string{
		"--name=local",
		"--data-dir=" + s.Dir.Etcd(),
		"--listen-client-urls=" + s.EtcdEndpoint(),
		"--advertise-client-urls=" + s.EtcdEndpoint(),
		"--cert-file=" + pki.Cert(s.Dir, pki.Etcd),
		"--key-file=" + pki.Key(s.Dir, pki.Etcd),
		"--trusted-ca-file=" + pki.Cert(s.Dir, pki.EtcdCA),
		"--client-cert-auth=true",
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=local=" + peer,
		"--peer-cert-file=" + pki.Cert(s.Dir, pki.Etcd),
		"--peer-key-file=" + pki.Key(s.Dir, pki.Etcd),
		"--peer-trusted-ca-file=" + pki.Cert(s.Dir, pki.EtcdCA),
		"--peer-client-cert-auth=true",
		// A single member need not wait long for an election.
		"--heartbeat-interval=20",
		"--election-timeout=200",
		// Old revisions are not needed here and would only grow the files.
		"--auto-compaction-mode=periodic",
		"--auto-compaction-retention=10m",
		"--log-level=warn",
	}
	if s.Fast {
		args = append(args, "--unsafe-no-fsync=true")
	}
	return s.component("etcd", args...)
}

// APIServer serves the Kubernetes API.
func (s Set) APIServer() Part {
	return s.component("kube-apiserver",
		"--etcd-servers="+s.EtcdEndpoint(),
		"--etcd-cafile="+pki.Cert(s.Dir, pki.EtcdCA),
		"--etcd-certfile="+pki.Cert(s.Dir, pki.EtcdClient),
		"--etcd-keyfile="+pki.Key(s.Dir, pki.EtcdClient),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", s.Ports.API),
		// The default reads the routing table, which fails on a machine without a network. A loopback
		// address cannot be an endpoint of the `kubernetes` Service, hence no reconciler.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file="+pki.Cert(s.Dir, pki.APIServer),
		"--tls-private-key-file="+pki.Key(s.Dir, pki.APIServer),
		"--client-ca-file="+pki.Cert(s.Dir, pki.ClusterCA),
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		// For the logs of a real node's pods. Node names cannot be resolved on this machine.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority="+pki.Cert(s.Dir, pki.ClusterCA),
		"--kubelet-client-certificate="+pki.Cert(s.Dir, pki.KubeletClient),
		"--kubelet-client-key="+pki.Key(s.Dir, pki.KubeletClient),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.Dir.PKI(pki.ServiceAccountPublic),
		"--service-account-signing-key-file="+s.Dir.PKI(pki.ServiceAccountKey),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--profiling=false",
	)
}

// ControllerManager runs the built-in controllers. Its client limits are raised because the defaults
// make it the bottleneck at a few Deployments a second. The folder of the host-path provisioner is
// fixed upstream, below /tmp; on simulated nodes nothing is ever written into the volumes there.
func (s Set) ControllerManager() Part {
	return s.component("kube-controller-manager",
		"--kubeconfig="+s.Dir.Kubeconfig(),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--root-ca-file="+pki.Cert(s.Dir, pki.ClusterCA),
		"--service-account-private-key-file="+s.Dir.PKI(pki.ServiceAccountKey),
		"--enable-hostpath-provisioner=true",
		"--profiling=false",
	)
}

// Scheduler places pods.
func (s Set) Scheduler() Part {
	return s.component("kube-scheduler",
		"--kubeconfig="+s.Dir.Kubeconfig(),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
	)
}

// Simulator simulates the kubelets of the nodes with our label, and of no other node. A node that is
// marked as lost stops reporting, like a kubelet that hangs; the real controllers do the rest.
func (s Set) Simulator() Part {
	return Part{Name: "kwok", Program: s.Kwok, Args: []string{
		"--kubeconfig=" + s.Dir.Kubeconfig(),
		"--config=" + s.Dir.Stages(),
		"--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=" + seed.ClassLabel + "=" + seed.ClassSimulated + ",!" + seed.LostLabel,
		"--node-lease-duration-seconds=40",
		"--cidr=10.244.0.1/16",
		"--node-ip=10.245.0.1",
		"--node-port=0",
		"--server-address=",
		// One line for each status of each pod would be most of the log.
		"-v=WARN",
	}}
}
