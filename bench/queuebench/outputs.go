package queuebench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	randv2 "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// outputFiles are how many files a chunk leaves.
const outputFiles = 4

// Outputs measures how fast the files of a chunk are stored where it ran, and fetched by
// another host, against plain copies that are as durable.
func Outputs(ctx context.Context, s *suite.Suite) (err error) {
	kept := suite.Series{
		Name: fmt.Sprintf("workflow: %d MiB that a chunk left, stored", s.Size.OutputBytes>>20), Unit: "MiB/s", Digest: suite.Median, Target: suite.Want("ratio", ">=", 0.8),
		With: "a plain copy of the files, each with fsync",
	}
	fetched := suite.Series{
		Name: fmt.Sprintf("workflow: %d MiB of outputs, fetched by another host", s.Size.OutputBytes>>20), Unit: "MiB/s", Digest: suite.Median, Target: suite.Want("ratio", ">=", 0.8),
		With: "a plain copy of the files over TLS, each with fsync",
	}
	for round := range s.Size.Rounds + 1 {
		s.Progress("outputs of %d bytes, round %d of %d", s.Size.OutputBytes, round, s.Size.Rounds)
		r, err := oneRoundOfOutputs(ctx, s, round)
		if err != nil {
			return err
		}
		if round == 0 { // it warms up
			continue
		}
		mib := func(d time.Duration) float64 { return float64(s.Size.OutputBytes>>20) / d.Seconds() }
		kept.Ours, kept.Peer = append(kept.Ours, mib(r.stored)), append(kept.Peer, mib(r.copied))
		fetched.Ours, fetched.Peer = append(fetched.Ours, mib(r.fetched)), append(fetched.Peer, mib(r.sent))
	}
	s.Add(kept)
	s.Add(fetched)
	return nil
}

// outputTimes are those of one round.
type outputTimes struct{ stored, copied, fetched, sent time.Duration }

func oneRoundOfOutputs(ctx context.Context, s *suite.Suite, round int) (t outputTimes, err error) {
	dir, err := os.MkdirTemp(s.Dir, "outputs-")
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := newOutputHost(dir)
	if err != nil {
		return t, err
	}
	names, err := h.fill(s.Size.OutputBytes/outputFiles, uint64(round))
	if err != nil {
		return t, err
	}
	spec := job.Spec{Executor: job.ExecutorExec, Program: "leave", Iterations: 1, Policy: job.Policy{Result: job.ResultNone, Outputs: names}}.WithDefaults()
	var left job.Files
	copies := filepath.Join(dir, "copies")
	err = suite.InTurn(round, func() error {
		began := time.Now()
		var err error
		left, err = executor.Collect(filepath.Join(dir, "left"), spec, spec.AttemptLimit(), -1, h.here)
		t.stored = time.Since(began)
		return err
	}, func() error {
		began := time.Now()
		err := copyAll(filepath.Join(dir, "source"), copies, names)
		t.copied = time.Since(began)
		return err
	})
	if err != nil {
		return t, err
	}
	err = suite.InTurn(round, func() (err error) {
		t.fetched, err = h.fetch(ctx, left)
		return err
	}, func() (err error) {
		t.sent, err = sendAll(ctx, copies, filepath.Join(dir, "received"), names)
		return err
	})
	return t, err
}

// outputHost is a host whose chunks leave files, and another that fetches them.
type outputHost struct {
	dir         string
	here, there *artefact.Store
}

func newOutputHost(dir string) (*outputHost, error) {
	h := &outputHost{dir: dir}
	var err error
	if h.here, err = artefact.New(artefact.Options{Dir: filepath.Join(dir, "here")}); err != nil {
		return nil, err
	}
	wire, err := newPairs()
	if err != nil {
		return nil, err
	}
	h.there, err = artefact.New(artefact.Options{Dir: filepath.Join(dir, "there"), Dial: func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) {
		client, server, err := wire.pair(ctx)
		if err == nil {
			go h.here.Serve(context.WithoutCancel(ctx), "there", server) // ends with its answer
		}
		return client, err
	}})
	if err != nil {
		return nil, err
	}
	return h, err
}

// fill makes the files that a chunk leaves, and the same to copy, and has
// them on the disk before anything is measured.
func (h *outputHost) fill(size int64, seed uint64) (names []string, err error) {
	for _, d := range []string{"left", "source"} {
		if err := os.Mkdir(filepath.Join(h.dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	for i := range outputFiles {
		names = append(names, fmt.Sprintf("part%d", i))
		var key [32]byte
		key[0], key[1] = byte(seed), byte(i)
		data := make([]byte, size)
		randv2.NewChaCha8(key).Read(data) //nolint:errcheck // never fails
		for _, d := range []string{"left", "source"} {
			if err := durable.WriteFile(filepath.Join(h.dir, d, names[i]), data, 0o600); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// fetch has the other host fetch what a chunk left.
func (h *outputHost) fetch(ctx context.Context, left job.Files) (time.Duration, error) {
	began := time.Now()
	for name, f := range left {
		if err := h.there.Fetch(ctx, f.Hash, []cluster.NodeID{"here"}); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return time.Since(began), nil
}

// copyAll copies files from a directory to a new one.
func copyAll(from, to string, names []string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		in, err := os.Open(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err = errors.Join(keep(in, filepath.Join(to, name)), in.Close()); err != nil {
			return err
		}
	}
	return durable.SyncDir(to)
}

// keep makes a durable file of what r yields.
func keep(r io.Reader, name string) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// sendAll copies files over connections of TLS, one for each, as a fetch has one.
func sendAll(ctx context.Context, from, to string, names []string) (time.Duration, error) {
	wire, err := newPairs()
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return 0, err
	}
	began := time.Now()
	for _, name := range names {
		client, server, err := wire.pair(ctx)
		if err != nil {
			return 0, err
		}
		sent := make(chan error, 1)
		go func() { // ends with the file
			in, err := os.Open(filepath.Join(from, name))
			if err == nil {
				_, err = io.Copy(server, in)
				err = errors.Join(err, in.Close())
			}
			sent <- errors.Join(err, server.Close())
		}()
		if err = errors.Join(keep(client, filepath.Join(to, name)), <-sent, client.Close()); err != nil {
			return 0, err
		}
	}
	err = durable.SyncDir(to)
	return time.Since(began), err
}

// pairs makes connections of TLS over loopback.
type pairs struct{ client, server *tls.Config }

func newPairs() (*pairs, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"here"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &pairs{
		client: &tls.Config{ServerName: "here", RootCAs: roots, MinVersion: tls.VersionTLS13},
		server: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, MinVersion: tls.VersionTLS13},
	}, nil
}

// pair makes one connection; the server's side shakes hands when it reads or writes.
func (p *pairs) pair(ctx context.Context) (client, server net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	s, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return tls.Client(c, p.client), tls.Server(s, p.server), nil
}
