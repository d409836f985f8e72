package pki

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"trueup.dev/local/kube/internal/place"
)

const contextName = "trueup-local"

// WriteKubeconfig writes the administrator's kubeconfig with everything embedded, so that the file
// can be given to any client. An unchanged file is left alone: clients may watch it.
func WriteKubeconfig(dir place.Dir, server string) error {
	return writeKubeconfig(dir, server, Admin, dir.Kubeconfig())
}

// WriteKubeletKubeconfig writes the kubeconfig of a real node's kubelet.
func WriteKubeletKubeconfig(dir place.Dir, server string) error {
	return writeKubeconfig(dir, server, Kubelet, dir.Node("kubeconfig"))
}

func writeKubeconfig(dir place.Dir, server, user, name string) error {
	ca, err := os.ReadFile(Cert(dir, ClusterCA))
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(Cert(dir, user))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(Key(dir, user))
	if err != nil {
		return err
	}

	config := api.NewConfig()
	config.Clusters[contextName] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[contextName] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("cannot encode the kubeconfig: %w", err)
	}

	current, err := os.ReadFile(name)
	if err == nil && bytes.Equal(current, content) {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return place.WriteFile(name, content, 0o600)
}
