package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/client"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/clusterslot"
)

// told is what a show says.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *told) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *told) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestShow: while jobs go on, the holder is killed, cut off and asked to hand over, each
// time another follows, and what the page asks answers; Ctrl-C ends it, with nothing
// left behind.
func TestShow(t *testing.T) {
	parallel(t)
	clusterslot.Take(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := &told{}, make(chan error, 1)
	page := func(ctx context.Context, socket string, link func(string)) error {
		c, err := client.Dial(client.Options{Endpoints: []string{socket}, Once: true})
		if err != nil {
			return err
		}
		defer c.API().Close()
		if _, err := c.API().Status(ctx); err != nil {
			return err
		}
		link("http://127.0.0.1:1/#code")
		<-ctx.Done()
		return nil
	}
	o := Options{Out: out, Exe: filepath.Join(bin, "skein"), Wasm: filepath.Join(bin, "examples", "pi.wasm"), Profile: cluster.ProfileFast, Iterations: 100_000_000, within: t.TempDir(), made: warm(t)}
	go func() {
		ended <- show(ctx, o, page, pace{calm: time.Second, down: 2 * time.Second, work: 3 * time.Second})
	}()
	wanted := []string{
		"http://127.0.0.1:1/#code", "job pi-1: ", "SIGKILL to n", " s later", "starts again", "is cut off from the others", "is mended", "is asked to hand the lease over", "job pi-1 is completed",
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		missing := ""
		for _, s := range wanted {
			if !strings.Contains(out.String(), s) {
				missing = s
			}
		}
		if missing == "" {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("ended: %v\n%s", err, out)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("no %q:\n%s", missing, out)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	t.Log(out)
	if left, err := os.ReadDir(o.within); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
