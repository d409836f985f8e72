package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"trueup.dev/local/kube/internal/parts"
	"trueup.dev/local/kube/internal/pki"
	"trueup.dev/local/kube/internal/place"
)

const (
	pollEvery = 25 * time.Millisecond
	// A busy machine with two cores needs a few seconds.
	startLimit = 90 * time.Second
)

// poll calls `check` until it succeeds, the limit is reached or the context ends.
func poll(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		cause := check(ctx)
		if cause == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), cause)
		case <-time.After(pollEvery):
		}
	}
}

// etcdAnswers does a full TLS handshake with our client certificate, so that another program on the
// port is not mistaken for the database.
func etcdAnswers(set parts.Set) (func(context.Context) error, error) {
	pair, err := tls.LoadX509KeyPair(pki.Cert(set.Dir, pki.EtcdClient), pki.Key(set.Dir, pki.EtcdClient))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(pki.Cert(set.Dir, pki.EtcdCA))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate; remove the pki folder to create a new one", pki.Cert(set.Dir, pki.EtcdCA))
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}}
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(set.Ports.EtcdClient))
	return func(ctx context.Context) error {
		connection, err := dialer.DialContext(ctx, "tcp4", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}, nil
}

// connect creates a client from the kubeconfig, which is thereby tested before anything else uses it.
func connect(dir place.Dir) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	config.QPS = -1
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfig(config)
}

func apiAnswers(client *kubernetes.Clientset) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}
