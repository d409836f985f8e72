package supervisor

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// limit is only reached by a failing test; a process that a test has to kill lives longer than that.
const (
	limit    = 60 * time.Second
	lifetime = 3 * limit
)

// unanswered is how many requests fail before a server answers.
const unanswered = 3

// TestMain lets this program act as trueup-kube and trueup-kwok, with fake components: they listen and
// check certificates as the real ones do, and write a journal.
func TestMain(m *testing.M) {
	switch program := filepath.Base(os.Args[0]); {
	case program == "trueup-kwok":
		os.Exit(pretend("kwok", os.Args[1:]))
	case program != "trueup-kube":
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "run":
		os.Exit(RunCommand(os.Args[2:]))
	case "probe":
		os.Exit(ProbeCommand(os.Args[2:]))
	case "clean":
		os.Exit(CleanCommand(os.Args[2:]))
	default:
		os.Exit(pretend(os.Args[1], os.Args[2:]))
	}
}

// pretend is a fake component. It runs in the folder of its cluster.
func pretend(name string, args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	flags := map[string]string{}
	for _, arg := range args {
		flag, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flags[flag] = value
	}
	alive, err := os.Create(aliveFile(".", name))
	if err == nil {
		err = syscall.Flock(int(alive.Fd()), syscall.LOCK_EX)
	}
	if err == nil {
		note("start %s", name)
		switch name {
		case "etcd":
			err = pretendEtcd(flags)
		case "kube-apiserver":
			err = pretendAPI(flags)
		default:
			_, err = os.Stat(flags["kubeconfig"])
		}
	}
	if err != nil {
		note("fail %s: %v", name, err)
		return 1
	}
	late := time.After(lifetime)
	for {
		select {
		case <-signals:
			if !exists("refuse-" + name) {
				note("end %s beside %q", name, others(name))
				return 0
			}
		case <-late:
			return 1
		}
	}
}

func note(format string, args ...any) {
	journal, err := os.OpenFile("journal", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer journal.Close()
	fmt.Fprintf(journal, format+"\n", args...)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}

func aliveFile(dir, name string) string { return filepath.Join(dir, "alive-"+name) }

// others are the components that run besides one.
func others(name string) []string {
	return slices.DeleteFunc(alive("."), func(other string) bool { return other == name })
}

// alive are the components of a folder that run: the kernel frees the lock of one that ends.
func alive(dir string) []string {
	var found []string
	for _, name := range components {
		file, err := os.Open(aliveFile(dir, name))
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			found = append(found, name)
		}
		_ = file.Close()
	}
	return found
}

// certificates are a server's own, and those of the authority whose clients it takes.
func certificates(cert, key, authority string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(content)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, RootCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true,
	}, nil
}

func pretendEtcd(flags map[string]string) error {
	config, err := certificates(flags["cert-file"], flags["key-file"], flags["trusted-ca-file"])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", strings.TrimPrefix(flags["listen-client-urls"], "https://"))
	if err != nil {
		return err
	}
	go func() {
		for asked := 0; ; asked++ {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			if asked == unanswered {
				note("answer etcd")
			}
			if asked >= unanswered {
				if err := tls.Server(connection, config).Handshake(); err != nil {
					note("fail etcd: %v", err)
				}
			}
			_ = connection.Close()
		}
	}()
	return nil
}

func pretendAPI(flags map[string]string) error {
	database, err := certificates(flags["etcd-certfile"], flags["etcd-keyfile"], flags["etcd-cafile"])
	if err != nil {
		return err
	}
	connection, err := tls.Dial("tcp4", strings.TrimPrefix(flags["etcd-servers"], "https://"), database)
	if err != nil {
		return err
	}
	_ = connection.Close()
	config, err := certificates(flags["tls-cert-file"], flags["tls-private-key-file"], flags["client-ca-file"])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", flags["bind-address"]+":"+flags["secure-port"])
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &pretendedAPI{}}
	go func() { panic(server.Serve(tls.NewListener(listener, config))) }()
	return nil
}

type pretendedAPI struct{ asked atomic.Int32 }

func (a *pretendedAPI) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	response.Header().Set("Content-Type", "application/json")
	switch {
	case request.URL.Path == "/readyz":
		switch asked := a.asked.Add(1); {
		case exists("never-ready") || asked <= unanswered:
			response.WriteHeader(http.StatusInternalServerError)
		case asked == unanswered+1:
			note("answer kube-apiserver")
		}
	case request.URL.Path == "/version":
		fmt.Fprint(response, `{"gitVersion":"v0.0.0-pretended"}`)
	case request.Method == http.MethodGet:
		fmt.Fprint(response, `{"kind":"NodeList","apiVersion":"v1","items":[]}`)
	case request.Method == http.MethodPost:
		note("POST %s", request.URL.Path)
		response.Header().Set("Content-Type", request.Header.Get("Content-Type"))
		response.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(response, request.Body)
	default:
		note("%s %s", request.Method, request.URL.Path)
		response.WriteHeader(http.StatusNotFound)
		fmt.Fprint(response, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}
