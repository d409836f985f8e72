package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net"
	"os"
	"path/filepath"
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
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func ensure(t *testing.T, dir place.Dir) {
	t.Helper()
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
}

// cert loads a pair, which fails if key and certificate do not match.
func cert(t *testing.T, dir place.Dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(Cert(dir, name), Key(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func verify(leaf, authority *x509.Certificate, usage x509.ExtKeyUsage) error {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

// contents are all files of the pki folder.
func contents(t *testing.T, dir place.Dir) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir.PKI(""), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[entry.Name()] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEachPairIsGoodForItsUseAndNoOther(t *testing.T) {
	dir := newDir(t)
	if err := EnsureKubelet(dir, "real-1", net.IPv4(10, 200, 3, 1)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		authority      string
		user, group    string
		server, client bool
	}{
		APIServer:     {ClusterCA, "kube-apiserver", "", true, false},
		Admin:         {ClusterCA, "trueup-local-admin", "system:masters", false, true},
		KubeletClient: {ClusterCA, KubeletClientUser, "", false, true},
		Kubelet:       {ClusterCA, "system:node:real-1", "system:nodes", true, true},
		Etcd:          {EtcdCA, "etcd", "", true, true},
		EtcdClient:    {EtcdCA, "kube-apiserver", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			leaf := cert(t, dir, name)
			for _, authority := range []string{ClusterCA, EtcdCA} {
				signer := cert(t, dir, authority)
				isOurs := authority == want.authority
				if got := verify(leaf, signer, x509.ExtKeyUsageServerAuth) == nil; got != (isOurs && want.server) {
					t.Errorf("as a server, %s takes it: %t", authority, got)
				}
				if got := verify(leaf, signer, x509.ExtKeyUsageClientAuth) == nil; got != (isOurs && want.client) {
					t.Errorf("as a client, %s takes it: %t", authority, got)
				}
			}
			if leaf.Subject.CommonName != want.user || strings.Join(leaf.Subject.Organization, ",") != want.group {
				t.Errorf("it is %s", leaf.Subject)
			}
			for _, host := range []string{"127.0.0.1", "localhost"} {
				if got := leaf.VerifyHostname(host) == nil; got != want.server {
					t.Errorf("good for %s: %t", host, got)
				}
			}
			if leaf.IsCA {
				t.Error("it can sign others")
			}
		})
	}
	if err := cert(t, dir, Kubelet).VerifyHostname("10.200.3.1"); err != nil {
		t.Error(err)
	}
}

func TestFilesAreClosedToOtherUsers(t *testing.T) {
	dir := newDir(t)
	for name := range contents(t, dir) {
		if info, err := os.Stat(dir.PKI(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v (%v)", name, info.Mode(), err)
		}
	}
}

func TestSecondStartKeepsEverything(t *testing.T) {
	dir := newDir(t)
	before := contents(t, dir)
	if len(before) != 16 {
		t.Errorf("there are %d files: %v", len(before), before)
	}
	ensure(t, dir)
	for name, content := range contents(t, dir) {
		if before[name] != content {
			t.Errorf("%s was created again", name)
		}
	}
}

func TestHalfPairIsMadeAgainAlone(t *testing.T) {
	for _, missing := range []string{"admin.crt", "admin.key", "etcd.crt", ServiceAccountKey, ServiceAccountPublic} {
		t.Run(missing, func(t *testing.T) {
			dir := newDir(t)
			before := contents(t, dir)
			if err := os.Remove(dir.PKI(missing)); err != nil {
				t.Fatal(err)
			}
			ensure(t, dir)
			pair := strings.TrimSuffix(missing, filepath.Ext(missing)) + "."
			for name, content := range contents(t, dir) {
				if kept := before[name] == content; kept == strings.HasPrefix(name, pair) {
					t.Errorf("%s is as it was: %t", name, kept)
				}
			}
			for _, name := range []string{Admin, Etcd} {
				cert(t, dir, name)
			}
		})
	}
}

func TestLostAuthorityTakesItsPairsAlong(t *testing.T) {
	dir := newDir(t)
	before := contents(t, dir)
	if err := os.Remove(Cert(dir, ClusterCA)); err != nil {
		t.Fatal(err)
	}
	ensure(t, dir)
	authority := cert(t, dir, ClusterCA)
	for _, name := range []string{Admin, KubeletClient} {
		if err := verify(cert(t, dir, name), authority, x509.ExtKeyUsageClientAuth); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := verify(cert(t, dir, APIServer), authority, x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	if contents(t, dir)["etcd.crt"] != before["etcd.crt"] {
		t.Error("a pair of the other authority was made again")
	}
}

func TestKubeletPairFollowsItsAddress(t *testing.T) {
	dir := newDir(t)
	var last []byte
	for _, step := range []struct {
		address string
		kept    bool
	}{{"10.200.3.1", false}, {"10.200.3.1", true}, {"10.201.7.1", false}} {
		if err := EnsureKubelet(dir, "real-1", net.ParseIP(step.address)); err != nil {
			t.Fatal(err)
		}
		leaf := cert(t, dir, Kubelet)
		if err := leaf.VerifyHostname(step.address); err != nil {
			t.Error(err)
		}
		if kept := bytes.Equal(leaf.Raw, last); kept != step.kept {
			t.Errorf("%s: kept: %t", step.address, kept)
		}
		last = leaf.Raw
	}
}

func TestDamagedFileSaysWhatToRemove(t *testing.T) {
	for _, name := range []string{"ca.crt", "ca.key", "etcd-ca.crt", "admin.crt"} {
		for _, content := range []string{"", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
			dir := newDir(t)
			if err := os.WriteFile(dir.PKI(name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Ensure(dir)
			if err == nil || !strings.Contains(err.Error(), dir.PKI(name)) || !strings.Contains(err.Error(), "remove the pki folder") {
				t.Errorf("%s with %q: %v", name, content, err)
			}
		}
	}
}

func TestServiceAccountKeysFit(t *testing.T) {
	dir := newDir(t)
	private, err := readPEM(dir.PKI(ServiceAccountKey))
	if err != nil {
		t.Fatal(err)
	}
	public, err := readPEM(dir.PKI(ServiceAccountPublic))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := x509.ParsePKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	checker, err := x509.ParsePKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if !signer.(*ecdsa.PrivateKey).PublicKey.Equal(checker) {
		t.Error("tokens of the private key do not pass the public one")
	}
}
