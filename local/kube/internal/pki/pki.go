// Package pki makes the keys and certificates of one cluster, once.
//
// etcd has an authority of its own: whoever may speak to the API server must not be able to speak to
// the database behind it with the same certificate.
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
	// KubeletClient is who the API server is to a kubelet; Kubelet is who a kubelet is to everybody.
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

// Ensure makes what is missing and keeps what is there, so that kubeconfigs and tokens handed out
// earlier stay good.
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
		// etcd dials itself for its peer port, so its certificate is good for both directions.
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

// EnsureKubelet makes the pair of a real node's kubelet, good for both directions: it serves on its
// node's address and is known to the API server as that node.
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

// complete says whether all files are there; with only some of them, a killed run left a half pair
// behind and the pair is made again.
func complete(names ...string) (bool, error) {
	for _, name := range names {
		_, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot look at %s: %w", name, err)
		}
	}
	return true, nil
}
