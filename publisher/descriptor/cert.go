package descriptor

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"time"
)

// CertType says what a certificate is for.
type CertType byte

// The certificates of a descriptor.
const (
	CertSigning CertType = 0x08 // descriptor key, by the blinded key
	CertAuth    CertType = 0x09 // key of an introduction point, by the descriptor key
	CertEnc     CertType = 0x0b // encryption key of a point as Ed25519 key, by the descriptor key
)

// Cert is a certificate of tor: somebody's word for an Ed25519 key until a
// time.
type Cert struct {
	Type    CertType
	KeyType byte
	Key     [32]byte
	Signer  [32]byte // as stated in the certificate
	Expires time.Time
}

const (
	certHead    = 1 + 1 + 4 + 1 + 32 + 1
	certExtLen  = 4 + 32
	certLen     = certHead + certExtLen + ed25519.SignatureSize
	maxCertLen  = 2048
	extSigner   = 4
	extCritical = 1
)

// ParseCert reads a certificate and verifies its signature by the key that it
// names, which the caller compares with whom it expects. Expiry is a matter of
// Valid.
func ParseCert(raw []byte) (Cert, error) {
	if len(raw) < certHead+ed25519.SignatureSize || len(raw) > maxCertLen {
		return Cert{}, fmt.Errorf("%w: %d bytes", ErrCert, len(raw))
	}
	if raw[0] != 1 {
		return Cert{}, fmt.Errorf("%w: version %d", ErrCert, raw[0])
	}
	c := Cert{
		Type:    CertType(raw[1]),
		Expires: time.Unix(int64(binary.BigEndian.Uint32(raw[2:]))*3600, 0).UTC(),
		KeyType: raw[6],
		Key:     [32]byte(raw[7:39]),
	}
	body := raw[:len(raw)-ed25519.SignatureSize]
	signer, err := certSigner(body[certHead:], int(raw[39]))
	if err != nil {
		return Cert{}, err
	}
	c.Signer = signer
	if !ed25519.Verify(signer[:], body, raw[len(body):]) {
		return Cert{}, fmt.Errorf("%w: certificate of type %02x: %w", ErrCert, byte(c.Type), ErrSignature)
	}
	return c, nil
}

func certSigner(exts []byte, n int) (signer [32]byte, err error) {
	found := false
	for range n {
		if len(exts) < 4 {
			return signer, fmt.Errorf("%w: extension cut off", ErrCert)
		}
		size, kind, flags := int(binary.BigEndian.Uint16(exts)), exts[2], exts[3]
		if len(exts) < 4+size {
			return signer, fmt.Errorf("%w: extension cut off", ErrCert)
		}
		switch value := exts[4 : 4+size]; {
		case kind == extSigner && size == 32 && !found:
			signer, found = [32]byte(value), true
		case kind == extSigner:
			return signer, fmt.Errorf("%w: two signers, or one of %d bytes", ErrCert, size)
		case flags&extCritical != 0:
			return signer, fmt.Errorf("%w: unknown critical extension %d", ErrCert, kind)
		}
		exts = exts[4+size:]
	}
	if len(exts) != 0 || !found {
		return signer, fmt.Errorf("%w: no signer, or bytes left over", ErrCert)
	}
	return signer, nil
}

// Valid checks that the certificate is of the type, by the signer, and not
// expired at now.
func (c Cert) Valid(kind CertType, signer [32]byte, now time.Time) error {
	switch {
	case c.Type != kind:
		return fmt.Errorf("%w: type %02x, need %02x", ErrCert, byte(c.Type), byte(kind))
	case c.Signer != signer:
		return fmt.Errorf("%w: type %02x: by another key", ErrCert, byte(kind))
	case !now.Before(c.Expires):
		return fmt.Errorf("%w: type %02x: at %s", ErrExpired, byte(kind), c.Expires.Format(time.RFC3339))
	}
	return nil
}

// encode signs the certificate. Hours are rounded up, so that it is valid no
// shorter than asked for.
func (c Cert) encode(sign func([]byte) []byte) []byte {
	out := make([]byte, 0, certLen)
	out = append(out, 1, byte(c.Type))
	hours := (c.Expires.Unix() + 3599) / 3600
	out = binary.BigEndian.AppendUint32(out, uint32(min(max(hours, 0), 1<<32-1)))
	out = append(out, c.KeyType)
	out = append(out, c.Key[:]...)
	out = append(out, 1, 0, 32, extSigner, 0)
	out = append(out, c.Signer[:]...)
	return append(out, sign(out)...)
}
