package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestFollowAnywhere follows a job at a host that is not the holder: the holder
// sends it what it knows, stops when the reader goes away, and who has seen the
// end finds the result at the same host.
func TestFollowAnywhere(t *testing.T) {
	d, ctx := startWith(t, 3, calm)
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := d.other(holder)
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Iterations, spec.Chunk, spec.Key = 1e13, 1e10, "long"
	sub := submit(ctx, t, h, spec)
	// The lease may move on a busy machine.
	sending := func() (streams int) {
		for _, x := range d.hosts {
			if !strings.Contains(metricsOf(ctx, t, x), "\nskein_forward_streams 0\n") {
				streams++
			}
		}
		return streams
	}
	if _, err := h.api.FollowJob(ctx, string(sub.Job), api.FollowOptions{}, func(j api.Job) error {
		if j.State == job.Running && sending() == 1 {
			return api.ErrStop
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 20*time.Second, "the holder stops sending", func() error {
		if sending() > 0 {
			return errors.New("a stream is open")
		}
		return nil
	})
	stopped := make(chan error, 1)
	last, err := h.api.FollowJob(ctx, string(sub.Job), api.FollowOptions{}, func(j api.Job) error {
		if j.State == job.Running && len(stopped) == 0 {
			_, err := d.other(h).api.StopJob(ctx, string(sub.Job), "seen enough")
			stopped <- err
		}
		return nil
	})
	if err != nil || last.State != job.Cancelled {
		t.Fatalf("followed to %s: %v", last.State, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if j, err := h.api.Job(ctx, string(sub.Job)); err != nil || j.State != job.Cancelled {
		t.Errorf("after the end it is %s: %v", j.State, err)
	}
}

// metricsOf reads the metrics of a host.
func metricsOf(ctx context.Context, t *testing.T, h *host) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(h.dir, "sock"))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://skein/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
