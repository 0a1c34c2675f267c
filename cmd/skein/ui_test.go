package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/internal/demo"
)

// notes is what a command writes to stderr while others read it.
type notes struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan struct{} // closed by the note that tells how to end it
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(p)
	if bytes.Contains(p, []byte("Ctrl-C")) {
		close(n.ready)
	}
	return len(p), nil
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// page is a running `skein ui`.
type page struct {
	link  string
	notes *notes
	code  chan int
	stop  context.CancelFunc
}

// end stops the command; its exit code.
func (p page) end(t *testing.T) int {
	t.Helper()
	p.stop()
	return p.wait(t)
}

func (p page) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return 0
	}
}

func startUI(t *testing.T, f *fakeCluster, env []string, args ...string) page {
	t.Helper()
	out, w := io.Pipe()
	said := &notes{ready: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, append([]string{"ui"}, args...), cli.Terminal{In: strings.NewReader(""), Out: w, Err: said, Env: append(env, "SKEIN_SOCKET="+f.socket)}, fakeDeps())
		w.Close()
	}()
	text := make([]byte, 1000)
	n, err := out.Read(text)
	if err != nil {
		t.Fatalf("no link: %v\n%s", err, said.String())
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // nothing more comes
	t.Cleanup(cancel)
	select {
	case <-said.ready:
	case <-time.After(time.Minute):
		t.Fatal("it does not say how to end it")
	}
	return page{link: strings.TrimSpace(string(text[:n])), notes: said, code: code, stop: cancel}
}

// post asks as the page does; the status and the body.
func (p page) post(t *testing.T, path, bearer, body string) (int, string) {
	t.Helper()
	base, _, _ := strings.Cut(p.link, "#")
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(base, "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (p page) trade(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(p.link)
	if err != nil || u.Hostname() != "127.0.0.1" || len(u.Fragment) < 43 {
		t.Fatalf("link %q, %v", p.link, err)
	}
	var got struct{ Bearer string }
	if _, body := p.post(t, "/ui/session", "", `{"code":"`+u.Fragment+`"}`); json.Unmarshal([]byte(body), &got) != nil || got.Bearer == "" {
		t.Fatal(body)
	}
	return got.Bearer
}

// TestUI: the link opens the page on this machine, which asks the daemon, and ends
// with the command.
func TestUI(t *testing.T) {
	f := started(t)
	p := startUI(t, f, []string{"SSH_CONNECTION=192.0.2.7 5000 192.0.2.9 2222"}, "--host", "ops.example")
	bearer := p.trade(t)
	if code, body := p.post(t, "/v1/status", bearer, ""); code != 200 || !strings.Contains(body, `"cluster"`) {
		t.Errorf("status: %d %s", code, body)
	}
	if code, body := p.post(t, "/v1/lease/step-down", bearer, "{}"); code != 200 {
		t.Errorf("step-down: %d %s", code, body)
	}
	if code, body := p.post(t, "/v1/status", "", ""); code != 401 || !strings.Contains(body, "skein ui") {
		t.Errorf("without a bearer: %d %s", code, body)
	}
	if code := p.end(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if said := p.notes.String(); !strings.Contains(said, "ssh -N -L ") || !strings.Contains(said, " -p 2222 192.0.2.9") {
		t.Errorf("notes %q", said)
	}
}

// TestUIReadOnly: no action, and the page is told that nobody may change anything.
func TestUIReadOnly(t *testing.T) {
	p := startUI(t, started(t), nil, "--read-only")
	if code, body := p.post(t, "/v1/lease/step-down", p.trade(t), "{}"); code != 403 || !strings.Contains(body, "--read-only") {
		t.Errorf("%d %s", code, body)
	}
	p.end(t)
}

// TestUIGuessed: who guesses codes ends the command.
func TestUIGuessed(t *testing.T) {
	p := startUI(t, started(t), nil)
	for range 10 {
		if code, _ := p.post(t, "/ui/session", "", `{"code":"guess"}`); code != 401 {
			t.Errorf("a guess: %d", code)
		}
	}
	if code := p.wait(t); code != cli.ExitForbidden || !strings.Contains(p.notes.String(), "guesses") {
		t.Errorf("exit %d\n%s", code, p.notes.String())
	}
}

// TestUIRefusals: what cannot be served is said at once.
func TestUIRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"--port is 70000": {"--port", "70000"}, `--host is "a:80"`: {"--host", "a:80"}, `--host is "http://a"`: {"--host", "http://a"},
		"none": {},
	} {
		var out, errs bytes.Buffer
		term := cli.Terminal{In: strings.NewReader(""), Out: &out, Err: &errs, Env: []string{"SKEIN_SOCKET=" + t.TempDir() + "/none"}}
		code := execute(t.Context(), append([]string{"ui"}, args...), term, fakeDeps())
		if code == 0 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit %d\n%s\n%s", args, code, out.String(), errs.String())
		}
	}
}

// TestUIPlain: the link is a secret that goes on, to pages that change nothing.
func TestUIPlain(t *testing.T) {
	p := startUI(t, started(t), nil, "--plain")
	u, err := url.Parse(p.link)
	if err != nil || u.Fragment != "" || !strings.HasSuffix(u.Path, "/p/overview") || len(u.Path) < 43 {
		t.Fatalf("link %q, %v", p.link, err)
	}
	p.link = "http://" + u.Host + "/"
	for range 2 {
		if code, body := p.post(t, u.Path, "", ""); code != 200 || !strings.Contains(body, "Cluster blue is ok") || strings.Contains(body, "<script") {
			t.Errorf("%d %s", code, body)
		}
	}
	for path, want := range map[string]int{u.Path: 404, "/v1/lease/step-down": 404, strings.TrimSuffix(u.Path, "p/overview") + "v1/lease/step-down": 404} {
		if code, _ := p.post(t, path, "", "{}"); code != want {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	for range 10 {
		if code, _ := p.post(t, "/guess/p/overview", "", ""); code != 401 {
			t.Errorf("a guess: %d", code)
		}
	}
	if code := p.wait(t); code != cli.ExitForbidden {
		t.Errorf("exit %d\n%s", code, p.notes.String())
	}
}

// fakeScale is a demo with servers of others.
func fakeScale(_ context.Context, o demo.Options, workers int) error {
	_, err := fmt.Fprintf(o.Out, "scale-out demo profile=%s iterations=%d workers=%d\n", o.Profile, o.Iterations, workers)
	return err
}

// fakeShow is a demo with a page.
func fakeShow(_ context.Context, o demo.Options, page demo.Page) error {
	_, err := fmt.Fprintf(o.Out, "demo with a page %t\n", page != nil)
	return err
}
