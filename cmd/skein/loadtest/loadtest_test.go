package loadtest

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skein-project/skein/cmd/skein/cli"
	"github.com/skein-project/skein/internal/faketarget"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
)

// skein runs a command line.
func skein(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &cli.App{Terminal: cli.Terminal{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: []string{"SKEIN_CONFIG=" + t.TempDir() + "/none.toml", "PASS=word"}}}
	root := &cobra.Command{Use: "skein", SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.Settle(cmd) }}
	a.AddFlags(root.PersistentFlags())
	root.AddCommand(Command(a, Options{Version: "v9", Mesh: func(string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.86.0.0/16")} }}))
	root.SetArgs(append([]string{"load", "--config", emptyConfig(t)}, args...))
	ctx := context.Background()
	if err := root.ExecuteContext(ctx); err != nil {
		return a.Report(ctx, err), stdout.String(), stderr.String()
	}
	return a.Code, stdout.String(), stderr.String()
}

func emptyConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skein.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func target(t *testing.T) (string, *faketarget.Target) {
	t.Helper()
	h := faketarget.New()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, h
}

// TestCountedMeanwhile: what outputs get of a run adds up to its report.
func TestCountedMeanwhile(t *testing.T) {
	url, _ := target(t)
	dir := t.TempDir()
	windows, whole := filepath.Join(dir, "windows.csv"), filepath.Join(dir, "whole.json")
	code, out, errs := skein(t, "run", "--local", "--rate", "100", "--for", "2s", url+"/", "--accept", "suspect", "--ui", "none", "--out", "csv="+windows, "--out", whole)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(windows)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) < 3 {
		t.Fatalf("%v: %q", err, lines)
	}
	at := slices.Index(lines[0], "requests")
	var sum uint64
	for _, l := range lines[1:] {
		n, err := strconv.ParseUint(l[at], 10, 64)
		if err != nil || !strings.HasPrefix(l[2], "local-") || l[4] != "get" {
			t.Errorf("%v: %q", err, l)
		}
		sum += n
	}
	if sum != d.Requests || sum == 0 {
		t.Errorf("the windows have %d requests, the report %d", sum, d.Requests)
	}
	for text, want := range map[string]string{"influx=x": "no http or https URL", "kafka=x": "KIND one of csv"} {
		if code, _, errs := skein(t, "run", "--local", "--for", "1s", url, "--out", text); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", text, code, errs)
		}
	}
}

// A run over real sockets: its report, its forms, thresholds and their exit codes.
func TestRun(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1") // nobody asks those
	}
	url, h := target(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	code, out, errs := skein(t, "run", "--local", "--rate", "200", "--for", "1s", "--users", "20", url+"/", "--accept", "suspect",
		"--threshold", "rate(failed)<1%", "--threshold", "p(99)<30s", "--out", file("a.json"), "--out", file("a.html"), "--out", file("a.xml"), "--out", file("a.csv"))
	if code != 0 || !strings.Contains(out, "200 requests in ") || h.Count("/") != 200 {
		t.Fatalf("exit %d, the target got %d\n%s%s", code, h.Count("/"), out, errs)
	}
	text, err := os.ReadFile(file("a.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Parse(text)
	if err != nil || d.Requests != 200 || d.Latency.P99 <= 0 || len(d.Thresholds) != 2 || d.Phases["connect"].Count == 0 {
		t.Errorf("%v: %s", err, text)
	}
	for name, want := range map[string]string{"a.html": "<svg", "a.xml": `name="p(99)&lt;30s"`, "a.csv": "get,200,"} {
		if text, err := os.ReadFile(file(name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%.300s", name, err, text)
		}
	}
	if code, out, _ := skein(t, "report", file("a.json"), "-o", "json"); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("report: exit %d\n%s", code, out)
	}
	if code, _, errs := skein(t, "report", file("a.json"), "--out", file("b.html")); code != 0 {
		t.Errorf("report: %s", errs)
	}
	one, _ := os.ReadFile(file("a.html"))
	two, _ := os.ReadFile(file("b.html"))
	if !bytes.Equal(one, two) {
		t.Error("the page of a report that was read is another one")
	}
	if code, out, _ := skein(t, "compare", file("a.json"), file("a.json"), "--max-regression", "0%"); code != 0 || !strings.Contains(out, "p99") {
		t.Errorf("compare: exit %d\n%s", code, out)
	}
	d.Latency.P95 *= 3
	worse, _ := json.Marshal(d)
	if err := os.WriteFile(file("w.json"), worse, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := skein(t, "compare", file("a.json"), file("w.json"), "--max-regression", "10%"); code != 8 || !strings.Contains(errs, "1 figure worse") {
		t.Errorf("compare: exit %d %s", code, errs)
	}
	code, out, errs = skein(t, "run", "--local", "--users", "2", "--for", "1s", url+"/status?code=404", "--threshold", "rate(failed)<1%")
	if code != 8 || !strings.Contains(out, "http4xx") || !strings.Contains(errs, "breached: rate(failed)<1%") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// What is refused is refused before anything is sent.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("thresholds = [\"p95<5\"]\ntraffic.a = { flow = \"f\", users = 1, for = \"1s\" }\n[[flow.f]]\ngett = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	breach := filepath.Join(dir, "breach.toml")
	if err := os.WriteFile(breach, []byte("traffic.a = { flow = \"f\", users = 1, for = \"1s\" }\nthresholds = [\n  \"p(95)<500\",\n  \"p95<5\",\n]\n[[flow.f]]\nget = \"http://127.0.0.1/\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"check", breach}, "breach.toml:4: thresholds[1]: \"p95<5\" is no threshold"},
		{[]string{"run", "--local", breach}, "breach.toml:4: thresholds[1]"},
		{[]string{"run", "--local", "http://169.254.169.254/"}, "nothing is sent to 169.254.169.254"},
		{[]string{"run", "http://169.254.169.254/"}, "nothing is ever sent to 169.254.169.254:80"}, // no daemon is asked
		{[]string{"run", "--local", "http://10.86.1.2/"}, "it is of the mesh"},
		{[]string{"run", "--local", "http://[::ffff:169.254.169.254]/"}, "secrets"},
		{[]string{"run", "--local", "--hosts", "2", "http://127.0.0.1/"}, "--hosts is for tests on hosts"},
		{[]string{"run", "--max-rate", "2", "http://127.0.0.1/"}, "--max-rate is for --local"},
		{[]string{"run", "--accept", "failed", "http://127.0.0.1/"}, "only suspect"},
		{[]string{"run", "--local", "--rate", "5000", "http://203.0.113.7/"}, "of the internet: the plan comes to 5000 requests/s"},
		{[]string{"run", "--local", "--users", "1001", "http://203.0.113.7/"}, "comes to 1001 users"},
		{[]string{"run", "--local", "--rate", "nan", "http://127.0.0.1/"}, "--rate"},
		{[]string{"run", "--local", "--rate", "0", "http://127.0.0.1/"}, "--rate is 0"},
		{[]string{"run", "--local", "--for", "25h", "http://127.0.0.1/"}, "--for"},
		{[]string{"run", "--local", "ftp://x/"}, "neither a file nor a URL"},
		{[]string{"run", "--local", "--for", "5s", "localhost:8080"}, "begins with http://"},
		{[]string{"run", "--local", "nope.toml"}, "no such file"},
		{[]string{"run", "--local", "http://"}, "no host"},
		{[]string{"run", "--local", "http://127.0.0.1/", "--threshold", "p95"}, "no threshold"},
		{[]string{"run", "--local", "http://127.0.0.1/", "--out", "x.pdf"}, "of no form"},
		{[]string{"run", "--local", "http://127.0.0.1/", "--ui", "big"}, `--ui is "big"`},
		{[]string{"run", "--local", "http://127.0.0.1/", "--accept", "failed"}, "only suspect"},
		{[]string{"run", "--local", bad, "--rate", "5"}, "--rate is for a URL"},
		{[]string{"watch", "l1", "--out", "x.pdf"}, "of no form"},
		{[]string{"watch", "l1", "--ui", "big"}, `--ui is "big"`},
		{[]string{"watch", "l1", "--accept", "failed"}, "only suspect"},
		{[]string{"check", bad}, "bad.toml:4: flow.f[0].gett: unknown key"},
		{[]string{"check", "/nonexistent"}, "no such file"},
		{[]string{"report", bad}, "is no report"},
		{[]string{"compare", bad, bad, "--max-regression", "x"}, "want a share"},
	} {
		if code, out, errs := skein(t, c.args...); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, want 2 and %q\n%s%s", c.args, code, c.want, out, errs)
		}
	}
}

// A test that is watched is one of hosts: it needs no scenario. Without a daemon that is said at once.
func TestWatchWithoutDaemon(t *testing.T) {
	code, _, errs := skein(t, "watch", "l1", "--socket", filepath.Join(t.TempDir(), "none.sock"), "--out", "r.html", "--accept", "incomplete")
	if code != cli.ExitUnreachable || !strings.Contains(errs, "daemon unreachable") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Each verdict has its exit code, with what is accepted and without.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		verdict rule.Verdict
		accept  []string
		want    int
	}{
		{rule.Passed, nil, 0},
		{rule.Failed, nil, 8},
		{rule.Failed, []string{"suspect", "incomplete"}, 8},
		{rule.Aborted, nil, 8},
		{rule.Aborted, []string{"suspect", "incomplete"}, 8},
		{rule.Suspect, nil, 6},
		{rule.Suspect, []string{"incomplete"}, 6},
		{rule.Suspect, []string{"suspect"}, 0},
		{rule.Incomplete, nil, 8},
		{rule.Incomplete, []string{"suspect"}, 8},
		{rule.Incomplete, []string{"incomplete"}, 0},
		{rule.Stopped, nil, 130},
	} {
		var stderr bytes.Buffer
		a := &cli.App{Terminal: cli.Terminal{In: strings.NewReader(""), Out: io.Discard, Err: &stderr}}
		f := &runFlags{accept: c.accept}
		code := 0
		if err := f.verdict(a, &report.Report{Verdict: c.verdict, Why: []string{"why"}}); err != nil {
			code = a.Report(t.Context(), err)
		} else {
			code = a.Code
		}
		if code != c.want {
			t.Errorf("%s, accepted %q: exit %d, want %d", c.verdict, c.accept, code, c.want)
		}
	}
}

// TestCheckOnce: check --once shows what is sent and answered, and no secret.
func TestCheckOnce(t *testing.T) {
	url, h := target(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "s.toml")
	text := `vars = { base = "` + url + `" }
traffic.a = { flow = "f", users = 1, for = "1s" }
[[flow.f]]
name = "login"
post = "${base}/login"
json = { user = "ann", password = "${secret.shop}" }
extract.token = { json = "$.token" }
check = "status == 200"
[[flow.f]]
name = "pay"
get = "${base}/pay"
auth = { bearer = "${token}" }
headers = { X-Key = "${secret.shop}${env.PASS}" }
check = "status == 200"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shop"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := skein(t, "check", path, "--once", "--secrets", dir)
	for _, want := range []string{"== login: ok", "> POST /login HTTP/1.1", "token = token-1", "check ok: status == 200", "X-Key: [redacted]word", `< {"ok":true`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 0 || strings.Contains(out, "hunter2") || h.Count("/pay") != 1 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := skein(t, "check", path, "--once"); code != 2 || !strings.Contains(errs, "--secrets") {
		t.Errorf("exit %d %s", code, errs)
	}
	if code, out, _ := skein(t, "check", path, "--secrets", dir); code != 0 || !strings.Contains(out, "login, pay") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, _, _ := skein(t, "check", path, "--once", "--secrets", dir, "--var", "base="+url+"/nope"); code != 0 && code != 8 {
		t.Errorf("exit %d", code)
	}
}

// The examples, and what the documents show, are scenarios.
func TestExamplesAndDocuments(t *testing.T) {
	files, err := filepath.Glob("../../../examples/load/*.toml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if code, _, errs := skein(t, "check", path); code != 0 {
			t.Errorf("%s: %s", path, errs)
		}
	}
	text, err := os.ReadFile("../../../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```toml\n")[1:]
	for i, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		s, err := load.Parse(b)
		if err == nil {
			_, err = s.Compile(load.Inputs{})
		}
		if err != nil {
			t.Errorf("block %d of docs/load.md: %v", i+1, err)
		}
	}
	for _, c := range load.ClassNames() {
		if !strings.Contains(string(text), "`"+c+"`") {
			t.Errorf("docs/load.md does not say what class %s is", c)
		}
	}
	smoke, err := os.ReadFile("../../../examples/load/smoke.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(smoke), "name =")
	if len(blocks) < 3 || !strings.Contains(string(text), "name ="+body) {
		t.Error("docs/load.md shows another examples/load/smoke.toml")
	}
}
