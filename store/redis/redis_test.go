package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/internal/advice"
	"github.com/skein-project/skein/internal/crewtest"
	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
	"github.com/skein-project/skein/scheduler/stream"
)

// server is one Redis for all tests that do not harm it; each has a prefix of its own.
var server struct {
	r   *servertest.Redis
	err error
	n   atomic.Int64
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if require.Missing(require.Redis) == nil {
		server.r, server.err = servertest.StartRedis(context.Background(), dir)
	}
	code := m.Run()
	if server.r != nil && server.err == nil {
		_ = server.r.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// shared returns the Redis of all tests.
func shared(t *testing.T) *servertest.Redis {
	t.Helper()
	require.Need(t, require.Redis)
	if server.err != nil {
		t.Fatal(server.err)
	}
	return server.r
}

// own starts a Redis of a test's own.
func own(t *testing.T, more ...string) *servertest.Redis {
	t.Helper()
	require.Need(t, require.Redis)
	dir, err := os.MkdirTemp("", "rd") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	r, err := servertest.StartRedis(t.Context(), dir, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop(); _ = os.RemoveAll(dir) })
	return r
}

// store runs a Store, whose options change may set, and waits until it serves.
func store(t *testing.T, r *servertest.Redis, prefix string, self cluster.NodeID, heard *crewtest.Heard, change func(*Options)) *Store {
	t.Helper()
	o := Options{Server: Server{Addresses: []string{"unix://" + r.Socket}, Prefix: prefix}, Cluster: "c1", Self: self, Logger: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if s.scripts, err = readScripts(lua(t)); err != nil {
		t.Fatal(err)
	}
	if heard != nil {
		s.OnPush(heard.Note)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }() // says that it was cancelled
	t.Cleanup(func() { cancel(); <-ended })
	serves(t, s)
	return s
}

func serves(t *testing.T, s *Store) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); s.Why() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(s.Why())
		}
	}
	time.Sleep(20 * time.Millisecond) // its subscription
}

func newPrefix() string { return fmt.Sprintf("t%d", server.n.Add(1)) }

// crewOf is two gateways, n1 and n2, and a holder, n3, on one Redis.
func crewOf(t *testing.T, r *servertest.Redis, prefix string, change func(*Options)) *crewtest.Crew {
	t.Helper()
	heard := crewtest.NewHeard()
	a, b, h := store(t, r, prefix, "n1", heard, change), store(t, r, prefix, "n2", heard, change), store(t, r, prefix, "n3", nil, change)
	return &crewtest.Crew{Doors: [2]desk.Crew{a, b}, Heard: heard, Dial: func(cluster.NodeID) net.Conn {
		for end := time.Now().Add(90 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			conn, err := h.Dial(t.Context())
			if err == nil {
				return conn
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}}
}

// TestSuite is what every store of outside workers does; its environment may name a mutant.
func TestSuite(t *testing.T) {
	r := shared(t)
	text, err := json.Marshal(crewtest.Result(job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Number: 1}))
	if err != nil {
		t.Fatal(err)
	}
	crewtest.Run(t, func(t *testing.T, results int) *crewtest.Crew {
		return crewOf(t, r, newPrefix(), func(o *Options) { o.ResultBytes = int64(results * (len(text) + 10)) })
	})
}

// TestOutages: scripts that Redis forgot, a Redis that was emptied, that was killed and that
// came back as it was before: workers attach anew, and the holder is told all again.
func TestOutages(t *testing.T) {
	r := own(t)
	c := crewOf(t, r, "sk", nil)
	do := func(args ...string) {
		t.Helper()
		client, err := Server{Addresses: []string{"unix://" + r.Socket}}.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	// hold tries until the store has heard that Redis is back.
	hold := func(term cluster.Term) *crewtest.Holder {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			h := c.Hold(t, "n3", term)
			if f := h.Hear(); f.Welcome != nil {
				return h
			} else if time.Now().After(end) {
				t.Fatalf("%+v", f.Refused)
			}
		}
	}
	h := hold(7)
	attach := func() (desk.Seat, desk.State) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			s, st, err := c.Doors[0].Attach(crewtest.Attaching(1))
			if err == nil {
				return s, st
			}
			if !errors.Is(err, desk.ErrBusy) || time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	s, first := attach()
	if f := h.Hear(); f.Join == nil {
		t.Fatalf("%+v", f)
	}
	do("SCRIPT", "FLUSH")
	if _, err := s.Beat(desk.Beat{}); err != nil {
		t.Errorf("a flushed script: %v", err)
	}
	if f := h.Hear(); f.Status == nil {
		t.Fatalf("%+v", f)
	}
	do("FLUSHALL")
	if _, err := s.Beat(desk.Beat{}); !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("an emptied Redis: %v", err)
	}
	h.Refused() // its fence is gone
	h = hold(7)
	_, second := attach()
	if f := h.Hear(); f.Join == nil || f.Join.Session != second.Session || second.Session <= first.Session {
		t.Fatalf("%+v", f)
	}

	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	h.Refused()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, _, err := c.Doors[1].Attach(crewtest.Attaching(2)); errors.Is(err, desk.ErrBusy) {
			if strings.Contains(err.Error(), r.Socket) {
				t.Errorf("a worker is told where Redis is: %v", err)
			}
			break
		} else if time.Now().After(end) {
			t.Fatalf("while Redis is down: %v", err)
		}
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	attach()
	// A Redis of before: its fence is of an earlier term.
	h = hold(9)
	do("HSET", "sk:{sk:c1}:fence", "term", "8", "holder", "n3")
	h.Refused()
	h = hold(9)
	do("HSET", "sk:{sk:c1}:fence", "term", "9", "holder", "n1")
	h.Refused()
	do("HSET", "sk:{sk:c1}:fence", "term", "9", "holder", "n3")
	h = hold(9)
	if f := h.Hear(); f.Join == nil {
		t.Fatalf("%+v", f)
	}
}

// TestMoves: a worker is told by the gateway at which it was last.
func TestMoves(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	heard := [2]*crewtest.Heard{crewtest.NewHeard(), crewtest.NewHeard()}
	doors := [2]*Store{store(t, r, prefix, "n1", heard[0], nil), store(t, r, prefix, "n2", heard[1], nil)}
	c := &crewtest.Crew{Doors: [2]desk.Crew{doors[0], doors[1]}, Heard: heard[0], Dial: func(cluster.NodeID) net.Conn {
		conn, err := doors[0].Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}}
	h := c.Hold(t, "n1", 1).Welcomed()
	first, st, err := doors[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	if f := h.Hear(); f.Join == nil {
		t.Fatalf("%+v", f)
	}
	second, err := doors[1].Seat(crewtest.ID(1), st.Session)
	if err != nil {
		t.Fatal(err)
	}
	stray := job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: 3, Number: 1}
	told := func(at int, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if len(heard[at].Taken(crewtest.ID(1))) > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the gateway %d tells it nothing", at)
			}
		}
		if more := heard[1-at].Taken(crewtest.ID(1)); len(more) > 0 {
			t.Errorf("the other gateway tells it %+v", more)
		}
	}
	beat := desk.Beat{Have: []desk.Progress{{Attempt: stray}}}
	told(0, func() error { _, err := first.Beat(beat); return err })
	told(1, func() error { _, err := second.Beat(beat); return err }) // at once
	settle := func() error {
		h.Say(stream.Frame{Worker: crewtest.ID(1), Accepted: &stream.Accepted{Term: 1, Refs: []job.Attempt{stray}}})
		return nil
	}
	told(1, settle)
	if _, err := first.Assigned(); err != nil {
		t.Fatal(err)
	}
	told(0, settle)
	if _, err := second.Complete([]stream.Result{crewtest.Result(stray)}); err != nil {
		t.Fatal(err)
	}
	told(1, settle)
}

// TestTrim: what the holder has read is forgotten.
func TestTrim(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	c := crewOf(t, r, prefix, nil)
	h := c.Hold(t, "n3", 1).Welcomed()
	s, _, err := c.Doors[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	if f := h.Hear(); f.Join == nil {
		t.Fatalf("%+v", f)
	}
	client, err := Server{Addresses: []string{"unix://" + r.Socket}}.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for end := time.Now().Add(30 * time.Second); ; {
		for range 300 {
			if _, err := s.Beat(desk.Beat{}); err != nil {
				t.Fatal(err)
			}
			if f := h.Hear(); f.Status == nil {
				t.Fatalf("%+v", f)
			}
		}
		n, err := client.Do(t.Context(), client.B().Xlen().Key(fmt.Sprintf("%s:{%s:c1}:in", prefix, prefix)).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n < 300 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d entries are kept that were read", n)
		}
	}
}

// TestLink: of the prelude a script has what it names, and what that names.
func TestLink(t *testing.T) {
	const prelude = "-- all\n\nlocal P = ARGV[1]\n\nlocal A, B = 1, 2\n\n-- one says.\nlocal function one() return P end\n\nlocal function two()\n  return one()\nend\n"
	for text, want := range map[string]string{
		"return 1\n":                       "return 1\n",
		"-- two\nreturn B\n":               "local A, B = 1, 2\nreturn B\n",
		"local id = 1\n-- one\nreturn P\n": "local id = 1\nlocal P = ARGV[1]\nreturn P\n",
		"  -- two\nreturn two(A)\n":        "local P = ARGV[1]\nlocal A, B = 1, 2\nlocal function one() return P end\nlocal function two()\n  return one()\nend\nreturn two(A)\n",
	} {
		if got := link(partsOf(prelude), text); got != want {
			t.Errorf("%q is linked to %q, want %q", text, got, want)
		}
	}
}

// TestSilence: who says nothing for long is lost, and forgotten after that; what it did is
// kept longer.
func TestSilence(t *testing.T) {
	t.Setenv("SKEIN_QUICK", "1")
	c := crewOf(t, shared(t), newPrefix(), nil)
	h := c.Hold(t, "n3", 1).Welcomed()
	s, st, err := c.Doors[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	if f := h.Hear(); f.Join == nil {
		t.Fatalf("%+v", f)
	}
	if f := h.Hear(); f.Part == nil || f.Part.Session != st.Session || f.Part.Gone {
		t.Fatalf("%+v", f)
	}
	if _, err := s.Beat(desk.Beat{}); !errors.Is(err, desk.ErrUnknown) {
		t.Errorf("%v", err)
	}
	a := crewtest.Attaching(2)
	done := job.Attempt{Job: "jaaaaaaaaaaaaaaaaaaaaaaaaaa", Chunk: 1, Number: 1}
	a.Kept = []job.Attempt{done}
	if s, _, err = c.Doors[1].Attach(a); err != nil {
		t.Fatal(err)
	}
	if said, err := s.Complete([]stream.Result{crewtest.Result(done)}); err != nil || said[0] != desk.Taken {
		t.Fatalf("%v, %v", said, err)
	}
	if err := s.Lose(); err != nil {
		t.Fatal(err)
	}
	lost := time.Now()
	// there says whether anything is known of a worker, and of how many results.
	there := func(i int) (known bool, kept int) {
		t.Helper()
		next := c.Hold(t, "n3", 1).Welcomed()
		next.Say(stream.Frame{Worker: crewtest.ID(i), Query: &stream.Ping{Term: 1, Nonce: 1}})
		next.Say(stream.Frame{Ping: &stream.Ping{Term: 1, Nonce: 2}})
		for {
			switch f := next.Hear(); {
			case f.Assigned != nil:
				return true, len(f.Assigned.Kept)
			case f.Pong != nil:
				return false, 0
			}
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if known, _ := there(1); !known {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is never forgotten")
		}
	}
	for time.Since(lost) < 3*time.Second { // by then it is forgotten that has no results
		if known, kept := there(2); (!known || kept != 1) && time.Since(lost) < 5*time.Second {
			t.Fatalf("a result is forgotten as soon as its worker: %v, %d", known, kept)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if known, _ := there(2); !known {
			break
		}
		if time.Now().After(end) {
			t.Fatal("its result is never forgotten")
		}
	}
}

// TestServers: a server that cannot serve is named, with what to do, by a Store and by an
// examination alike.
func TestServers(t *testing.T) {
	base, dir := shared(t), t.TempDir()
	wrong := filepath.Join(dir, "password")
	if err := os.WriteFile(wrong, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca, cert, key := certificate(t, dir, "a")
	otherCA, _, _ := certificate(t, dir, "b")
	locked := own(t, "--requirepass", "right")
	drops := own(t, "--maxmemory-policy", "allkeys-lru")
	split := own(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes")
	plainAt, secretAt := freeAddress(t), freeAddress(t)
	own(t, "--port", portOf(plainAt), "--bind", "127.0.0.1")
	own(t, "--tls-port", portOf(secretAt), "--bind", "127.0.0.1", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
	replica := own(t, "--replicaof", "127.0.0.1 "+portOf(plainAt))
	unix := func(r *servertest.Redis) []string { return []string{"unix://" + r.Socket} }
	for name, c := range map[string]struct {
		v          Server
		want, next string
	}{
		"no server":     {Server{Addresses: []string{"unix:///nonexistent"}}, "no such file", "start it"},
		"nobody there":  {Server{Addresses: []string{freeAddress(t)}}, "refused", "start it"},
		"password":      {Server{Addresses: unix(locked), PasswordFile: wrong}, "WRONGPASS", "set redis.password_file"},
		"none":          {Server{Addresses: unix(locked)}, "NOAUTH", "set redis.password_file"},
		"no file":       {Server{Addresses: unix(locked), PasswordFile: wrong + "x"}, "redis.password_file", "name a file"},
		"ca":            {Server{Addresses: unix(base), TLSCA: wrong}, "no certificate", "name a file"},
		"no TLS there":  {Server{Addresses: []string{plainAt}, TLSCA: ca}, "TLS", "leave redis.tls_ca empty"},
		"TLS there":     {Server{Addresses: []string{secretAt}}, "", "set redis.tls_ca"},
		"another's TLS": {Server{Addresses: []string{secretAt}, TLSCA: otherCA}, "x509", "redis.tls_ca must be who signed"},
		"eviction":      {Server{Addresses: unix(drops)}, "allkeys-lru", "set noeviction"},
		"cluster":       {Server{Addresses: unix(split)}, "cluster mode", "no cluster"},
		"replica":       {Server{Addresses: unix(replica)}, "replica", "name its master"},
	} {
		s, err := New(Options{Server: c.v, Cluster: "c1", Self: "n1", Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		asStore := s.connected(ctx, func() {})
		_, _, asDoctor := Examine(ctx, c.v, "c1")
		cancel()
		for _, err := range []error{asStore, asDoctor} {
			if err == nil {
				t.Errorf("%s: it serves", name)
				continue
			}
			if what, next := advice.Of(err); !strings.Contains(what, c.want) || !strings.Contains(next, c.next) {
				t.Errorf("%s: %q, and what to do is %q, want %q, %q", name, what, next, c.want, c.next)
			}
		}
	}
	what, warned, err := Examine(t.Context(), Server{Addresses: []string{secretAt}, TLSCA: ca, Prefix: "sk"}, "c1")
	if err != nil || len(warned) != 0 || !strings.HasPrefix(what, "Redis ") {
		t.Errorf("one that serves by TLS: %q, %v, %v", what, warned, err)
	}
	fine := func() map[string]string {
		return map[string]string{"redis_version": "7.0.15", "cluster_enabled": "0", "role": "master", "maxmemory_policy": "noeviction", "aof_enabled": "1"}
	}
	for name, c := range map[string]struct {
		key, value string
		ahead      time.Duration
		want       string
	}{
		"fine": {"x", "", 0, ""}, "old": {"redis_version", "6.0.16", 0, "6.2 or later"}, "none": {"redis_version", "", 0, "6.2 or later"},
		"new": {"redis_version", "10.1.2", 0, ""}, "replica": {"role", "slave", 0, "replica"}, "fast": {"x", "", time.Minute, "NTP"}, "slow": {"x", "", -time.Minute, "NTP"},
	} {
		info := fine()
		info[c.key] = c.value
		if _, err := verdict(info, c.ahead); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	info := fine()
	info["aof_enabled"] = "0"
	if warned, err := verdict(info, 0); err != nil || len(warned) != 1 {
		t.Errorf("%v, %v", warned, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// certificate makes the files of one that signs itself.
func certificate(t *testing.T, dir, name string) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, errC := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	secret, errK := x509.MarshalPKCS8PrivateKey(private)
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	if err := errors.Join(errC, errK,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, cert, key
}

// TestClusters: two clusters share a Redis, and know nothing of each other.
func TestClusters(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	a := crewOf(t, r, prefix, nil)
	b := crewOf(t, r, prefix, func(o *Options) { o.Cluster = "c2" })
	if _, _, err := a.Doors[1].Attach(crewtest.Attaching(1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Doors[0].Attach(crewtest.Attaching(2)); err != nil {
		t.Fatal(err)
	}
	at := Server{Addresses: []string{"unix://" + r.Socket}, Prefix: prefix}
	if what, warned, err := Examine(t.Context(), at, "c2"); err != nil || len(warned) != 0 {
		t.Errorf("%q, %v, %v", what, warned, err)
	}
	if f := b.Hold(t, "n3", 1).Welcomed().Hear(); f.Join == nil || f.Worker != crewtest.ID(2) || f.Join.Gateway != "n1" {
		t.Errorf("%+v", f)
	}
	if f := a.Hold(t, "n3", 4).Welcomed().Hear(); f.Join == nil || f.Worker != crewtest.ID(1) || f.Join.Gateway != "n2" {
		t.Errorf("%+v", f)
	}
	for cluster, other := range map[string]string{"c1": "c2", "c2": "c1"} {
		_, warned, err := Examine(t.Context(), at, cluster)
		if err != nil || len(warned) != 1 {
			t.Fatalf("%s: %v, %v", cluster, warned, err)
		}
		if what, next := advice.Of(warned[0]); !strings.HasSuffix(what, ": "+other) || !strings.Contains(next, "a Redis of its own") {
			t.Errorf("%s: %q, %q", cluster, what, next)
		}
	}
}

// TestHostile: what a worker names cannot be anything but attempts, and what somebody else
// wrote about one worker keeps none of the others out.
func TestHostile(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	c := crewOf(t, r, prefix, nil)
	s, _, err := c.Doors[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []job.ID{"a b", "a,b", "a\nb", "", "x 1 1,jaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		bad := job.Attempt{Job: id, Chunk: 1, Number: 1}
		running, kept := crewtest.Attaching(2), crewtest.Attaching(2)
		running.Running, kept.Kept = []job.Attempt{bad}, []job.Attempt{bad}
		_, _, errR := c.Doors[0].Attach(running)
		_, _, errK := c.Doors[0].Attach(kept)
		_, errB := s.Beat(desk.Beat{Have: []desk.Progress{{Attempt: bad}}})
		_, errC := s.Complete([]stream.Result{crewtest.Result(bad)})
		for _, err := range []error{errR, errK, errB, errC} {
			if !errors.Is(err, desk.ErrInvalid) {
				t.Errorf("attempts of %q: %v", id, err)
			}
		}
	}
	client, err := Server{Addresses: []string{"unix://" + r.Socket}}.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keys := fmt.Sprintf("%s:{%s:c1}:", prefix, prefix)
	for _, args := range [][]string{{"HSET", keys + "w:w-foreign", "session", "x"}, {"ZADD", keys + "live", "9999999999999", "w-foreign"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if f := c.Hold(t, "n3", 1).Welcomed().Hear(); f.Join == nil || f.Worker != crewtest.ID(1) {
		t.Errorf("%+v", f)
	}
}

// TestElsewhere: what a worker asks by HTTP, at any gateway, does not have it be told elsewhere
// than where it listens; what it asks over a connection does.
func TestElsewhere(t *testing.T) {
	r, prefix := shared(t), newPrefix()
	var heard [2]*crewtest.Heard
	var at [2]*Store
	for i, self := range []cluster.NodeID{"n1", "n2"} {
		heard[i] = crewtest.NewHeard()
		at[i] = store(t, r, prefix, self, heard[i], nil)
	}
	three := store(t, r, prefix, "n3", nil, nil)
	c := &crewtest.Crew{Dial: func(cluster.NodeID) net.Conn {
		conn, err := three.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}}
	h := c.Hold(t, "n3", 1).Welcomed()
	chunk := 0
	told := func(where int, what string) {
		t.Helper()
		chunk++
		h.Give(crewtest.ID(1), "jaaaaaaaaaaaaaaaaaaaaaaaaaa", uint64(chunk), chunk) //nolint:gosec // G115: a small number
		if p := heard[where].Await(t, crewtest.ID(1)); p.Kind != desk.PushChunks || p.Chunks.Refs[0].Chunk != chunk {
			t.Fatalf("%s: %+v", what, p)
		}
		heard[1-where].Silent(t, crewtest.ID(1))
	}
	s, st, err := at[0].Attach(crewtest.Attaching(1))
	if err != nil {
		t.Fatal(err)
	}
	told(0, "where it attached")
	there, err := at[1].Seat(crewtest.ID(1), st.Session)
	if err != nil {
		t.Fatal(err)
	}
	apart := there.(desk.Roaming).Apart()
	if _, err := apart.Assigned(); err != nil {
		t.Fatal(err)
	}
	told(0, "it asked another by HTTP")
	if _, err := there.Assigned(); err != nil {
		t.Fatal(err)
	}
	told(1, "it asked another over a connection")
	if _, err := s.Assigned(); err != nil {
		t.Fatal(err)
	}
	told(0, "it is back")
	if err := s.Bye(); err != nil {
		t.Fatal(err)
	}
	again := crewtest.Attaching(2)
	again.Apart = true
	if _, _, err := at[1].Attach(again); err != nil {
		t.Fatal(err)
	}
	h.Give(crewtest.ID(2), "jaaaaaaaaaaaaaaaaaaaaaaaaaa", 100, 100)
	if p := heard[1].Await(t, crewtest.ID(2)); p.Kind != desk.PushChunks {
		t.Fatalf("one that only attached, by HTTP: %+v", p)
	}
}

// FuzzPush: what is published is read, or refused.
func FuzzPush(f *testing.F) {
	f.Add("w\n1\n2\n3\nchunk\n{}\nj 1 1,j 2 1")
	f.Add("w\n1\n2\n3\nreplaced\nflood\n9")
	f.Add("w\n1\n2\n3\nstop\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pushOf(text)
		if err == nil && p.Kind == desk.PushChunks && p.Chunks.Spec == nil {
			t.Errorf("%q is %+v", text, p)
		}
	})
}

// FuzzStatus: what stands in an entry is read, or refused.
func FuzzStatus(f *testing.F) {
	f.Add("1 1 0\nj 1 1 5,j 2 1 7")
	f.Add("1 1")
	f.Fuzz(func(t *testing.T, text string) {
		st, err := statusOf(text)
		if err == nil && len(st.Running) != len(st.Progress) {
			t.Errorf("%q is %+v", text, st)
		}
	})
}
