package client

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
)

// signer proves requests with a user's key.
type signer struct {
	key ed25519.PrivateKey

	mu      sync.Mutex
	cluster string // id; empty: to be asked for; guarded by mu
}

// sign proves req, which goes to e. Each try has a proof of its own: a host takes
// none twice.
func (s *signer) sign(req *http.Request, e *endpoint) error {
	id, err := s.clusterID(req, e)
	if err != nil {
		return err
	}
	sum := sha256.New()
	switch {
	case req.Body == nil || req.Body == http.NoBody:
	case req.GetBody == nil:
		return errors.New("what cannot be read twice cannot be signed: give a file")
	default:
		body, err := req.GetBody()
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, body)
		body.Close()
		if err != nil {
			return fmt.Errorf("read what is to be signed: %w", err)
		}
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	var nonce [access.NonceBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails
	proof, err := access.Sign(access.Request{
		Cluster: id, Method: req.Method, Host: strings.ToLower(req.Host),
		Path: req.URL.EscapedPath(), Query: req.URL.RawQuery, Body: digest,
	}, s.key, nonce, time.Now())
	if err != nil {
		return err
	}
	proof.Put(req.Header)
	req.Header.Set(access.HeaderBody, hex.EncodeToString(digest[:]))
	return nil
}

// clusterID returns the id of the cluster, which the first endpoint says that is
// asked: what is signed for one cluster is worth nothing in another.
func (s *signer) clusterID(req *http.Request, e *endpoint) (string, error) {
	s.mu.Lock()
	known := s.cluster
	s.mu.Unlock()
	if known != "" {
		return known, nil
	}
	ask, err := http.NewRequestWithContext(req.Context(), http.MethodGet, e.base.JoinPath("/v1/version").String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := e.rt.RoundTrip(ask)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var v struct {
		Cluster string `json:"cluster"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(&v); err != nil || v.Cluster == "" {
		return "", &api.UnreachableError{Target: e.name, Err: fmt.Errorf("it answers %q and does not say of which cluster it is: %w", resp.Status, ErrNotAPI)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == "" {
		s.cluster = v.Cluster
	}
	return s.cluster, nil
}
