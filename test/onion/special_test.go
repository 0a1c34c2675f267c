package onion

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/onionnet"
	"github.com/skein-project/skein/internal/tornet/tornettest"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

func nodeID(name string) cluster.NodeID { return cluster.NodeID(name) }

// TestRestricted: with the keys of clients in the descriptor, who has one gets
// in and who has none does not.
func TestRestricted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.start("a")
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := s.publish("a", 1, key.PublicKey())
	s.awaitPublished(p, "a")
	dir := filepath.Join(s.dir, "client-keys")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	line := descriptor.FormatClientSecret(s.key.Address(), key) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "me.auth_private"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	with := s.clients("with", 1, "ClientOnionAuthDir "+dir)
	without := s.clients("without", 1)
	s.judge("client with a key", s.visits(with, 3))
	for _, v := range s.visits(without, 2) {
		if v.Err == nil {
			t.Errorf("a client without a key got in after %s", v.Took)
		}
	}
}

// TestMembersOnly: a service that knows as many clients as fit in a descriptor is
// reached by each of them, not by others, and no more by one that it forgot.
func TestMembersOnly(t *testing.T) {
	t.Parallel()
	n := sharedNetwork(t)
	const clients = 224 // see maxAdmitted of the daemon
	encoding := base32.StdEncoding.WithPadding(base32.NoPadding)
	keys := make([]*ecdh.PrivateKey, clients)
	service := tor.Service{
		Dir: filepath.Join(t.TempDir(), "service"), Ports: []tor.Port{{Virtual: 80, Target: backend(t, "hello")}}, Clients: map[string]string{},
	}
	for i := range keys {
		var err error
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			t.Fatal(err)
		}
		service.Clients[fmt.Sprint("client-", i)] = encoding.EncodeToString(keys[i].PublicKey().Bytes())
	}
	host := runTor(t, tor.Options{Torrc: n.Torrc(), Services: []tor.Service{service}})
	with, without := runTor(t, tor.Options{Torrc: n.Torrc()}), runTor(t, tor.Options{Torrc: n.Torrc()})
	address, err := service.Address()
	if err != nil {
		t.Fatal(err)
	}
	enter := func(x *tor.Tor, key *ecdh.PrivateKey) func(context.Context) error {
		return func(ctx context.Context) error {
			conn, err := x.DialPrivate(ctx, "private", address+":80", key)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	t.Logf("a client with a key is in after %s", eventually(t, "with a key", enter(with, keys[clients-1])))
	text, err := host.Descriptor(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d clients: descriptor of %d bytes", clients, len(text))
	if err := reach(without, address, "hello")(t.Context()); err == nil {
		t.Error("a client without a key is in")
	} else {
		t.Logf("without a key: %v", err)
	}
	if err := with.NewIdentity(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := reach(with, address, "hello")(t.Context()); err == nil {
		t.Error("a client with a new identity is in though it gave no key")
	}
	// Its next descriptor tells who was refused before.
	stranger, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := enter(without, stranger)(t.Context()); err == nil {
		t.Error("a client with a key of its own making is in")
	}
	delete(service.Clients, fmt.Sprint("client-", clients-1))
	service.Clients["late"] = encoding.EncodeToString(stranger.PublicKey().Bytes())
	if err := host.SetServices([]tor.Service{service}); err != nil {
		t.Fatal(err)
	}
	if err := host.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a client that became known is in after %s", eventually(t, "known later", enter(without, stranger)))
	t.Logf("a client that is known no more is out after %s", eventually(t, "forgotten", func(ctx context.Context) error {
		fresh := runTor(t, tor.Options{Torrc: n.Torrc()})
		if enter(fresh, keys[clients-1])(ctx) == nil {
			return errors.New("it is in")
		}
		return nil
	}))
}

// TestMigration takes over the key of a service that ran without skein.
func TestMigration(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	dir := filepath.Join(s.dir, "before")
	old := tornettest.Run(t, s.n, "old", "HiddenServiceDir "+dir, "HiddenServicePort 80 "+backend(t, "old\n"))
	file, err := os.ReadFile(filepath.Join(dir, "hs_ed25519_secret_key"))
	if err != nil {
		t.Fatal(err)
	}
	if s.key, err = descriptor.ParseSecretKey(file); err != nil {
		t.Fatal(err)
	}
	name, err := os.ReadFile(filepath.Join(dir, "hostname"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.key.Address().String(); got != strings.TrimSpace(string(name)) {
		t.Fatalf("address of the key is %s, tor says %s", got, name)
	}
	client := s.clients("client", 1)
	s.until("the service as it was", func() error {
		host, err := onionnet.Dial(t.Context(), client[0], "before", s.key.Address())
		if err == nil && host != "old" {
			t.Fatalf("%s answered", host)
		}
		return err
	})
	old.Kill()
	s.start("a")
	p := s.publish("a", 1)
	s.awaitPublished(p, "a")
	visits := s.visits(client, 3)
	s.judge("after the migration", visits)
	for _, v := range visits {
		if v.Err == nil && v.Host != "a" {
			t.Errorf("%s answered", v.Host)
		}
	}
	for _, r := range p.Reports() {
		if r.Foreign != nil {
			t.Logf("told: %s", r.Foreign)
		}
	}
}

// TestDirectories: one of the directories hangs, one dies, one is new. Relays
// that the whole network uses stop here, so no other test runs meanwhile.
func TestDirectories(t *testing.T) {
	long(t)
	s := newStage(t)
	s.start("a", "b")
	p := s.publish("a", 1)
	s.awaitPublished(p, "a", "b")
	dir := func() descriptor.Fingerprint {
		for _, u := range slices.Backward(p.Uploads()) {
			if r, ok := s.n.RelayOf(u.Dir.String()); ok && u.Err == nil && strings.HasPrefix(r.Name(), "relay") {
				return u.Dir
			}
		}
		t.Fatal("no directory is a relay")
		return descriptor.Fingerprint{}
	}
	hung := dir()
	relay, _ := s.n.RelayOf(hung.String())
	if err := relay.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = relay.Signal(syscall.SIGCONT) }() // the others need it
	t.Logf("directory %s hangs", relay.Name())
	schedule, err := p.Network().Schedule(true)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	version := p.Status().Version
	s.roster.Weigh("b", 0)
	s.awaitNew(p, version)
	// A hanging relay is in the middle of circuits as well, those of posts and of
	// clients: mostly a post takes a second, and where it hangs the next try 20 s
	// later goes another way. What clients meet no descriptor can help: that is
	// printed only.
	bound(t, "published while a directory hangs", time.Since(began), 45*time.Second)
	clients := s.clients("client", 2)
	served := 0
	for _, v := range s.visits(clients, 5) {
		if v.Err == nil {
			served++
		}
	}
	t.Logf("%d of 10 fresh connections while a directory hangs", served)
	if err := relay.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	s.until("the directory that hung", func() error {
		if now, err := p.Network().Schedule(true); err != nil || now != schedule {
			t.Logf("the directories changed meanwhile: %v", err)
			return nil
		}
		return stored(p, hung, began)
	})

	s.judge("after it hung", s.visits(clients, 5))

	dead, _ := s.n.RelayOf(dir().String())
	dead.Kill()
	t.Logf("directory %s is dead", dead.Name())
	version = p.Status().Version
	s.roster.Weigh("b", 1)
	s.awaitNew(p, version)
	// As above, how long it takes is up to the clients: the dead relay is in the
	// middle of their circuits too.
	s.judge("dead directory", s.visits(clients, 5))
	began = time.Now()
	if _, err := s.n.Revive(dead); err != nil {
		t.Fatal(err)
	}
	added, err := s.n.AddRelay()
	if err != nil {
		t.Fatal(err)
	}
	// Where the ring has it is chance: that it is there is told by the
	// consensus, and that all directories are right by the next fetch.
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	if err := s.n.AwaitRunning(ctx, 13); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is in the consensus %s after its start", added.Name(), time.Since(began).Round(100*time.Millisecond))
	s.until("a consensus with it at the publisher", func() error {
		if c := p.Network(); c == nil || len(c.Dirs) < 13 {
			return errors.New("not yet")
		}
		return nil
	})
	s.judge("after a new directory", s.visits(clients, 5))
}

// stored says whether a directory took a post since, or refused it because it
// has what came to it before.
func stored(p *onionnet.Publisher, dir descriptor.Fingerprint, since time.Time) error {
	for _, u := range p.Uploads() {
		if u.Dir == dir && (u.Err == nil || errors.Is(u.Err, publisher.ErrRejected)) && u.At.After(since) {
			return nil
		}
	}
	return errors.New("took nothing")
}
