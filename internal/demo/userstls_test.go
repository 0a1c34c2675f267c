package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster/job"
)

// fromOutside is how a user submits a job and reads all of it.
type fromOutside struct {
	spec           job.Spec // its key names the way
	key            string   // file of the user's key
	module         string
	targets, certs []string // endpoints, and the pins of their keys
}

// TestUserFromOutsideTLS: a user whose machine is no member submits a job over TLS to
// hosts whose keys it pins, and reads it to its end. The host that carries it is
// killed on the way: it is the only one of the two that lives when the job begins, and
// the other one comes up only then, so what goes on does so by the other one.
func TestUserFromOutsideTLS(t *testing.T) {
	rounds := 1
	if proving() {
		rounds = 5
	}
	d, ctx, ports := startForUsers(t, 3, "0.0.0.0") // neither loopback nor mesh: TLS
	o := fromOutside{key: filepath.Join(t.TempDir(), "ann.key"), module: filepath.Join(bin, "examples", "pi.wasm")}
	public, err := exec.CommandContext(ctx, d.o.Exe, "auth", "key", o.key).Output()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[*host]api.Endpoint{}
	for i, h := range d.hosts {
		set, err := h.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter", Keys: []string{string(public)}})
		if err != nil || len(set.Endpoints) != 1 || !strings.HasPrefix(set.Endpoints[0].URL, "https://") || set.Endpoints[0].Pin == "" {
			t.Fatalf("endpoints of %s: %+v, %v", h.name, set.Endpoints, err)
		}
		ends[h] = api.Endpoint{URL: fmt.Sprintf("https://127.0.0.1:%d", ports[i]), Pin: set.Endpoints[0].Pin}
	}
	if o.spec, err = d.upload(ctx, o.module); err != nil {
		t.Fatal(err)
	}
	n, err := d.calibrate(ctx, o.spec)
	if err != nil {
		t.Fatal(err)
	}
	o.spec.Chunk = n / 100
	o.spec.Iterations = o.spec.Chunk * 200
	for round := range rounds {
		for name, way := range map[string]func(context.Context, *demo, fromOutside) error{"skein": byProgram, "client": byClient} {
			t.Run(fmt.Sprintf("%s %d", name, round), func(t *testing.T) {
				o := o
				o.spec.Key = fmt.Sprintf("%s-%d", name, round)
				outlived(ctx, t, d, ends, o, way)
			})
		}
	}
}

// outlived kills the host by which a job is read.
func outlived(ctx context.Context, t *testing.T, d *demo, ends map[*host]api.Endpoint, o fromOutside, way func(context.Context, *demo, fromOutside) error) {
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var two []*host
	for _, h := range d.hosts {
		if h != holder {
			two = append(two, h)
			o.targets, o.certs = append(o.targets, ends[h].URL), append(o.certs, ends[h].Pin)
		}
	}
	kill := func(h *host) {
		t.Helper()
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-h.done
	}
	rise := func(h *host) {
		t.Helper()
		if err := h.run(); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, time.Minute, h.name+" is back and knows ann", func() error {
			list, err := h.api.Users(ctx)
			if err == nil && len(list.Users) == 0 {
				return fmt.Errorf("no users on %s", h.name)
			}
			return err
		})
	}
	kill(two[1])
	ended := make(chan error, 1)
	go func() { ended <- way(ctx, d, o) }()
	eventually(ctx, t, 2*time.Minute, "the job of ann runs", func() error {
		select {
		case err := <-ended:
			t.Fatalf("it ended before the job ran: %v", err)
		default:
		}
		list, err := holder.api.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, j := range list.Jobs {
			if j.Name == o.spec.Key && j.Owner == "user:ann" && j.Chunks.Accepted > 0 {
				return nil
			}
		}
		return fmt.Errorf("%d jobs, %s is none that runs", len(list.Jobs), o.spec.Key)
	})
	rise(two[1])
	select {
	case err := <-ended:
		t.Fatalf("the job ended before a host was killed: %v", err)
	default:
	}
	kill(two[0])
	if err := <-ended; err != nil {
		t.Error(err)
	}
	rise(two[0])
}

// byProgram runs the job as a user at a shell does.
func byProgram(ctx context.Context, d *demo, o fromOutside) error {
	args := []string{"--socket", strings.Join(o.targets, ","), "--pin", strings.Join(o.certs, ","), "--key", o.key, "--timeout", "60s"}
	run := exec.CommandContext(ctx, d.o.Exe, append(args, "job", "run", "--wasm", o.module, "--iterations", fmt.Sprint(o.spec.Iterations),
		"--chunk", fmt.Sprint(o.spec.Chunk), "--name", o.spec.Key, "--key", o.spec.Key, "--follow", "-o", "json")...)
	var out, notes bytes.Buffer
	run.Stdout, run.Stderr = &out, &notes
	if err := run.Run(); err != nil || !strings.Contains(out.String(), `"completed"`) {
		return fmt.Errorf("job run: %w\n%s\n%s", err, out.String(), notes.String())
	}
	return nil
}

// byClient does the same in Go: each result comes once, and none is missing.
func byClient(ctx context.Context, _ *demo, o fromOutside) error {
	text, err := os.ReadFile(o.key)
	if err != nil {
		return err
	}
	key, err := access.ParsePrivateKey(text)
	if err != nil {
		return err
	}
	c, err := client.Dial(client.Options{Endpoints: o.targets, Key: key, Pins: o.certs})
	if err != nil {
		return err
	}
	defer c.Close()
	o.spec.Name = o.spec.Key
	sub, err := c.Submit(ctx, o.spec, client.Callbacks{})
	if err != nil {
		return err
	}
	read := map[int]int{}
	_, err = c.StreamResults(ctx, string(sub.Job), api.Cursor{}, func(r api.ChunkResult) error {
		read[r.Chunk]++
		return nil
	})
	if err != nil {
		return err
	}
	j, err := c.Wait(ctx, string(sub.Job))
	if err != nil {
		return err
	}
	if j.State != job.Completed || j.Chunks.Accepted != o.spec.Chunks() {
		err = fmt.Errorf("ended %s with %d of %d chunks", j.State, j.Chunks.Accepted, o.spec.Chunks())
	}
	for i := range o.spec.Chunks() {
		if read[i] != 1 {
			err = errors.Join(err, fmt.Errorf("chunk %d was read %d times", i, read[i]))
		}
	}
	return err
}
