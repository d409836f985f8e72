package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"trueup.dev/local/kube/internal/place"
)

// The files are as private as the data directory and are removed with it: a rotation would only add a
// failure mode.
const lifetime = 10 * 365 * 24 * time.Hour

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

type leaf struct {
	commonName     string
	group          string
	server, client bool
	// addresses are where it serves besides loopback.
	addresses []net.IP
}

func ensureAuthority(dir place.Dir, name, commonName string) (*authority, error) {
	found, err := complete(Cert(dir, name), Key(dir, name))
	if err != nil {
		return nil, err
	}
	if found {
		return loadAuthority(dir, name)
	}
	template, err := newTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if err := issue(dir, name, template, nil); err != nil {
		return nil, err
	}
	return loadAuthority(dir, name)
}

func ensureLeaf(dir place.Dir, name string, signer *authority, want leaf) error {
	found, err := complete(Cert(dir, name), Key(dir, name))
	if err != nil {
		return err
	}
	if found {
		current, err := loadCert(dir, name)
		if err != nil || fits(current, signer, want) {
			return err
		}
	}
	subject := pkix.Name{CommonName: want.commonName}
	if want.group != "" {
		subject.Organization = []string{want.group}
	}
	template, err := newTemplate(subject)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if want.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, want.addresses...)
		template.DNSNames = []string{"localhost"}
	}
	if want.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	return issue(dir, name, template, signer)
}

// fits returns whether an existing certificate is still valid: not one of a lost authority, or for an
// earlier address of the node.
func fits(current *x509.Certificate, signer *authority, want leaf) bool {
	for _, address := range want.addresses {
		if current.VerifyHostname(address.String()) != nil {
			return false
		}
	}
	return current.CheckSignatureFrom(signer.cert) == nil
}

// issue writes a new pair; without a signer it signs itself.
func issue(dir place.Dir, name string, template *x509.Certificate, signer *authority) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if signer == nil {
		signer = &authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return fmt.Errorf("cannot sign the certificate %s: %w", name, err)
	}
	if err := writePrivate(Key(dir, name), key); err != nil {
		return err
	}
	return writePEM(Cert(dir, name), "CERTIFICATE", der)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		// A clock that is set back a little must not make it invalid.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(lifetime),
	}, nil
}

func loadCert(dir place.Dir, name string) (*x509.Certificate, error) {
	content, err := readPEM(Cert(dir, name))
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(content)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged, remove the pki folder to create a new one: %w", Cert(dir, name), err)
	}
	return cert, nil
}

func loadAuthority(dir place.Dir, name string) (*authority, error) {
	cert, err := loadCert(dir, name)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(Key(dir, name))
	if err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged, remove the pki folder to create a new one: %w", Key(dir, name), err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s cannot sign, remove the pki folder to create a new one", Key(dir, name))
	}
	return &authority{cert: cert, key: signer}, nil
}

func ensureServiceAccountKeys(dir place.Dir) error {
	private, public := dir.PKI(ServiceAccountKey), dir.PKI(ServiceAccountPublic)
	found, err := complete(private, public)
	if err != nil || found {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePrivate(private, key); err != nil {
		return err
	}
	return writePEM(public, "PUBLIC KEY", der)
}

func writePrivate(name string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(name, "PRIVATE KEY", der)
}

func writePEM(name, kind string, der []byte) error {
	return place.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func readPEM(name string) ([]byte, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is damaged, remove the pki folder to create a new one", name)
	}
	return block.Bytes, nil
}
