package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/daemon"
	"github.com/skein-project/skein/internal/clusterslot"
)

// inside runs the daemon of h in this process, with options that the command
// does not have, until the test ends.
func inside(t *testing.T, h *host, o daemon.RunOptions) {
	t.Helper()
	cfg, err := config.Load(config.Options{Path: h.config})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o.Version, o.Stderr = "test", log
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, cfg, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		log.Close()
	})
}

// TestRenewal lets a host live with certificates of nine seconds: it has them
// renewed by its sponsor in time, again and again, and nobody notices.
func TestRenewal(t *testing.T) {
	parallel(t)
	slot := clusterslot.Take(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d := &demo{
		o:   Options{Out: testWriter{t}, Exe: filepath.Join(bin, "skein"), Profile: cluster.ProfileLAN},
		dir: t.TempDir(), start: time.Now(), size: 2, port: slot.Port,
	}
	var hosts []*host
	for i := range d.size {
		h, err := newHost(d, i)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	t.Cleanup(func() {
		if d.hosts = hosts; t.Failed() {
			d.showLogs()
		}
	})
	n1, n2 := hosts[0], hosts[1]
	if err := n1.command(ctx, "init", "--config", n1.config, "--cluster", "demo"); err != nil {
		t.Fatal(err)
	}
	// Short, so that a third of it, when renewal begins, is over in seconds.
	const life = 9 * time.Second
	inside(t, n1, daemon.RunOptions{CertLife: life})
	eventually(ctx, t, 20*time.Second, "n1 holds", func() error {
		s, err := n1.api.Status(ctx)
		if err == nil && s.Lease.Holder != "n1" {
			err = errors.New("no holder")
		}
		return err
	})
	// Without the root key the newcomer becomes no sponsor, whose certificate
	// would never expire.
	root := filepath.Join(t.TempDir(), "root")
	if err := join.ExportRoot(n1.stateDir(), root, true); err != nil {
		t.Fatal(err)
	}
	token, err := n1.api.CreateToken(ctx, time.Minute, 1)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(n2.dir, "token")
	if err := os.WriteFile(file, []byte(token.Secret.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	inside(t, n2, daemon.RunOptions{Join: file})

	var expires time.Time
	for range 2 { // renewed twice: the second time with a renewed one
		eventually(ctx, t, 30*time.Second, "n1 knows a later certificate of n2", func() error {
			ms, err := n1.api.Members(ctx)
			if err != nil {
				return err
			}
			for _, m := range ms.Members {
				if m.Node != "n2" || m.CertExpiresAt == nil {
					continue
				}
				switch {
				case m.State == cluster.Suspect || m.State == cluster.Dead:
					t.Fatalf("n2 is %s", m.State)
				case expires.IsZero():
					expires = *m.CertExpiresAt
				case m.CertExpiresAt.After(expires):
					expires = *m.CertExpiresAt
					return nil
				}
			}
			return fmt.Errorf("it expires %s", expires)
		})
	}
	eventually(ctx, t, 10*time.Second, "the renewals are logged", func() error {
		if n := len(eventsOf(ctx, t, n2, event.KindMemberRenewed)); n < 2 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	if _, err := n2.api.CreateToken(ctx, time.Minute, 1); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("a host without sponsor certificate makes a token: %v", err)
	}
	if n := len(eventsOf(ctx, t, n2, event.KindTokenCreated)); n != 1 {
		t.Errorf("%d events of a new token, want 1", n)
	}
	if _, err := n2.api.Remove(ctx, "n1", "burnt"); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("the only sponsor is removed without root key: %v", err)
	}
	// With the root key it makes itself a sponsor, and the others agree.
	if err := join.ImportRoot(n2.stateDir(), root); err != nil {
		t.Fatal(err)
	}
	took := eventually(ctx, t, 15*time.Second, "n2 admits hosts", func() error {
		_, err := n2.api.CreateToken(ctx, time.Minute, 1)
		return err
	})
	t.Logf("a sponsor %.1f s after the root key came", took.Seconds())
	eventually(ctx, t, 10*time.Second, "n1 knows the new sponsor", func() error {
		ms, err := n1.api.Members(ctx)
		for _, m := range ms.Members {
			if m.Node == "n2" && m.CertExpiresAt == nil {
				return err
			}
		}
		return errors.New("it does not")
	})
}
