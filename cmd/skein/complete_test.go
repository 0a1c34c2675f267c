package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// completions is what the shell is offered, and the directive: 4 for no files, 0 for
// files.
func completions(t *testing.T, f *fakeCluster, words ...string) (offers []string, directive string) {
	t.Helper()
	code, out, _ := inProcess(t, f, cli.Terminal{}, append([]string{"__complete"}, words...)...)
	if code != 0 {
		t.Fatalf("%q: exit %d", words, code)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(l, "\t")
		offers = append(offers, word)
	}
	return offers, lines[len(lines)-1]
}

// TestCompletion: hosts, jobs, kinds and states where they are meant, files only where
// files are.
func TestCompletion(t *testing.T) {
	f := started(t)
	ctx := t.Context()
	worker, gone := event.WorkerEnrolled{Worker: cluster.OutsideID([]byte("a"))}, event.WorkerEnrolled{Worker: cluster.OutsideID([]byte("b"))}
	_, _ = f.SetUser(ctx, "uid:0", event.UserSet{Name: "ann", Role: "viewer"})
	for _, w := range []event.WorkerEnrolled{worker, gone} {
		_, _ = f.EnrolWorker(ctx, "uid:0", w)
	}
	_, _ = f.RevokeWorker(ctx, "uid:0", gone.Worker)
	_, _ = f.CreateAccess(ctx, "uid:0", "user:ann", []string{"work"}, time.Hour)
	for _, c := range []struct{ line, offers, directive string }{
		{"mesh n", "n1 n2 n3", ":4"},
		{"mesh n1 ", "", ":4"},
		{"worker drain n3", "n3", ":4"},
		{"lease voters set n1 n", "n1 n2 n3", ":4"},
		{"onion grant x n", "n1 n2 n3", ":4"},
		{"onion grant ", "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion", ":4"},
		{"onion export x ", "", ":0"},
		{"onion import ", "", ":0"},
		{"events --node n1", "n1", ":4"},
		{"events --kind lease_", "lease_released lease_lost", ":4"},
		{"job ls --state run", "running", ":4"},
		{"members --state de", "dead", ":4"},
		{"members --role ", "holder standby witness", ":4"},
		{"run --profile ", "classic lan fast", ":4"},
		{"run --state-dir ", "", ":0"},
		{"job run --wasm ", "", ":0"},
		{"job run --key ", "", ":4"},
		{"job run --name ", "", ":4"},
		{"lease voters mode a", "auto available", ":4"},
		{"status -o j", "json jsonl", ":4"},
		{"token revoke a", "abc", ":4"},
		{"gateway worker revoke ", string(worker.Worker), ":4"},
		{"gateway worker add --owner ", "user:ann", ":4"},
		{"gateway worker add --key-file ", "", ":0"},
		{"gateway worker add --key ", "", ":4"},
		{"gateway token revoke ", "aaaaaaaaaaaaaaaa", ":4"},
		{"gateway token create --role w", "watch work", ":4"},
		{"gateway token create --out ", "", ":0"},
		{"load run ", "", ":0"},
		{"load run --key ", "", ":4"},
		{"load run --secrets ", "", ":0"},
		{"load run --on n", "n1 n2 n3", ":4"},
		{"load run --on-loss a", "abort", ":4"},
		{"load report ", "", ":0"},
		{"load compare old.json ", "", ":0"},
		{"job run --local --to ", "", ":0"},
		{"job run --on-partial ", "finish fail wait", ":4"},
		{"job outputs jbad --to ", "", ":0"},
		{"lease step-down --to n", "n1 n2 n3", ":4"},
		{"watch --topics lo", "load", ":4"},
		{"work --dir ", "", ":0"},
		{"schedule set --zone ", "", ":4"},
		{"help job r", "results retry run", ":4"},
		{"help job run ", "", ":4"},
		{"status ", "", ":4"},
	} {
		words := strings.Split(c.line, " ")
		// What the daemon is asked comes in time or not at all: this machine may be busy.
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			offers, directive := completions(t, f, words...)
			if strings.Join(offers, " ") == c.offers && directive == c.directive {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%q: %q %s, want %q %s", c.line, offers, directive, c.offers, c.directive)
				break
			}
		}
	}
	if offers, _ := completions(t, f, "job", "stop", ""); len(offers) > 4 || len(offers) > 0 && len(offers[0]) != 9 {
		t.Errorf("jobs: %q", offers)
	}
}

// TestFilesAreOffered: a flag that names a file or a directory, and no other, has files offered.
func TestFilesAreOffered(t *testing.T) {
	files := regexp.MustCompile(`\b(file|directory|module|socket of the daemon)\b|@FILE`)
	// Of which the word is said for another reason.
	other := map[string]bool{
		"skein job run --chunk": true, "skein job run --key": true, "skein job run --metric": true, "skein job run --name": true, "skein workflow run --key": true,
		"skein schedule set --name": true, "skein schedule set --overlap": true, "skein job run --program": true, "skein job run --files": true, "skein job run --outputs": true,
		"skein job run --set": true, "skein auth token --user": true, "skein auth key --user": true,
	}
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			path := cmd.CommandPath() + " --" + f.Name
			offer, known := cmd.GetFlagCompletionFunc(f.Name)
			if !known || other[path] || !strings.HasPrefix(f.Value.Type(), "string") {
				return
			}
			_, directive := offer(cmd, nil, "nothing is called like this")
			if is := directive&cobra.ShellCompDirectiveNoFileComp == 0; is != files.MatchString(f.Usage) {
				t.Errorf("%s (%s): files offered %t", path, f.Usage, is)
			} else if is {
				seen++
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	f := &fakeCluster{socket: t.TempDir() + "/none"}
	walk(newRoot(&cli.App{Terminal: cli.Terminal{Env: []string{"SKEIN_SOCKET=" + f.socket}}}, fakeDeps()))
	if seen < 20 {
		t.Errorf("%d flags of files seen", seen)
	}
}

// asking are commands whose next word is the daemon's to say.
var asking = [][]string{{"worker", "drain", ""}, {"job", "stop", ""}, {"onion", "verify", ""}, {"events", "--node", ""}}

// TestCompletionAlone: without a daemon nothing is offered, nothing is said, and it does
// not take long.
func TestCompletionAlone(t *testing.T) {
	begun := time.Now()
	for _, words := range asking {
		if offers, directive := completions(t, &fakeCluster{socket: t.TempDir() + "/none"}, words...); len(offers) > 0 || directive != ":4" {
			t.Errorf("%q: %q %s", words, offers, directive)
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

// soon is how long whoever types waits at most: 50 ms, and as much for a busy machine.
const soon = 100 * time.Millisecond

// TestCompletionOfSilent: a daemon that takes the question and does not answer, or begins
// to and never ends, costs whoever types a moment, and says no word.
func TestCompletionOfSilent(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":         "",
		"half a head":     "HTTP/1.1 200 OK\r\nContent-",
		"half an answer":  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"members\":[{\"node\":\"n1\"",
		"no HTTP":         "skein-join-1.c2VjcmV0\n",
		"another service": "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n",
	} {
		t.Run(name, func(t *testing.T) {
			socket := silent(t, answer)
			for _, words := range asking {
				fastest := time.Hour
				// This machine may be busy: one time of many tells how long it takes.
				for deadline := time.Now().Add(patience); fastest > soon && time.Now().Before(deadline); {
					code, out, errs, took := typed(t, socket, words)
					said := strings.ReplaceAll(errs, "Completion ended with directive: ShellCompDirectiveNoFileComp\n", "")
					if fastest = min(fastest, took); code != 0 || out != ":4\n" || said != "" {
						t.Fatalf("%q: exit %d %q %q", words, code, out, said)
					}
				}
				if t.Logf("%q: %s", words, fastest); fastest > soon {
					t.Errorf("%q: never sooner than %s", words, fastest)
				}
			}
		})
	}
}

// silent is the socket of a daemon that answers so much, and then keeps the connection and
// says no more.
func silent(t *testing.T, answer string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
			if _, err := conn.Read(make([]byte, 4096)); err == nil { // who is asked answers, and no sooner
				_, _ = io.WriteString(conn, answer)
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, conn := range held {
			_ = conn.Close()
		}
		_ = os.RemoveAll(dir)
	})
	return l.Addr().String()
}

// typed completes as a shell does, whose user has set the command a long deadline.
func typed(t *testing.T, socket string, words []string) (code int, out, errs string, took time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var o, e bytes.Buffer
	begun := time.Now()
	go func() {
		defer close(ended)
		code = execute(ctx, append([]string{"__complete"}, words...), cli.Terminal{
			In: strings.NewReader(""), Out: &o, Err: &e, Env: []string{"SKEIN_SOCKET=" + socket, "SKEIN_CONFIG=/nonexistent/skein.toml", "SKEIN_TIMEOUT=10m"},
		}, fakeDeps())
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("%q: no end within %s", words, patience)
	}
	return code, o.String(), e.String(), time.Since(begun)
}
