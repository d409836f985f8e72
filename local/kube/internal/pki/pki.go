// Package pki creates the keys and certificates of one cluster, once.
//
// etcd has a separate authority: a client certificate of the API server must not give access to the
// database behind it.
package pki

import (
	"errors"
	"fmt"
	"net"
	"os"

	"trueup.dev/local/kube/internal/place"
)

// Names of the pairs; each is NAME.crt and NAME.key in the cluster's pki folder.
const (
	ClusterCA = "ca"
	APIServer = "apiserver"
	Admin     = "admin"
	// KubeletClient identifies the API server to a kubelet; Kubelet identifies a kubelet.
	KubeletClient = "kubelet-client"
	Kubelet       = "kubelet"
	EtcdCA        = "etcd-ca"
	Etcd          = "etcd"
	EtcdClient    = "etcd-client"
)

// KubeletClientUser is bound to the one role that it needs by `seed`.
const KubeletClientUser = "kube-apiserver-kubelet-client"

// ServiceAccountKey signs service account tokens; ServiceAccountPublic checks them.
const (
	ServiceAccountKey    = "service-account.key"
	ServiceAccountPublic = "service-account.pub"
)

// Cert and Key are the paths of a pair.
func Cert(dir place.Dir, name string) string { return dir.PKI(name + ".crt") }
func Key(dir place.Dir, name string) string  { return dir.PKI(name + ".key") }

// Ensure creates what is missing and keeps what exists, so that existing kubeconfigs and tokens stay
// valid.
func Ensure(dir place.Dir) error {
	clusterCA, err := ensureAuthority(dir, ClusterCA, "trueup local cluster")
	if err != nil {
		return err
	}
	etcdCA, err := ensureAuthority(dir, EtcdCA, "trueup local etcd")
	if err != nil {
		return err
	}
	leaves := []struct {
		name   string
		signer *authority
		leaf   leaf
	}{
		{APIServer, clusterCA, leaf{commonName: "kube-apiserver", server: true}},
		{Admin, clusterCA, leaf{commonName: "trueup-local-admin", group: "system:masters", client: true}},
		{KubeletClient, clusterCA, leaf{commonName: KubeletClientUser, client: true}},
		// etcd dials its own peer port, so its certificate is valid for client and server.
		{Etcd, etcdCA, leaf{commonName: "etcd", server: true, client: true}},
		{EtcdClient, etcdCA, leaf{commonName: "kube-apiserver", client: true}},
	}
	for _, item := range leaves {
		if err := ensureLeaf(dir, item.name, item.signer, item.leaf); err != nil {
			return err
		}
	}
	return ensureServiceAccountKeys(dir)
}

// EnsureKubelet creates the pair of a real node's kubelet, valid for client and server: it serves on
// its node's address and identifies that node to the API server.
func EnsureKubelet(dir place.Dir, node string, address net.IP) error {
	clusterCA, err := ensureAuthority(dir, ClusterCA, "trueup local cluster")
	if err != nil {
		return err
	}
	return ensureLeaf(dir, Kubelet, clusterCA, leaf{
		commonName: "system:node:" + node,
		group:      "system:nodes",
		server:     true,
		client:     true,
		addresses:  []net.IP{address},
	})
}

// complete returns whether all files exist; with only some of them, a killed run left half a pair
// behind and the pair is created again.
func complete(names ...string) (bool, error) {
	for _, name := range names {
		_, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot inspect %s: %w", name, err)
		}
	}
	return true, nil
}
