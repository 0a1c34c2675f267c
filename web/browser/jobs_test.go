package browser

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
)

// TestJobsAtAPortal: who shows a token at the page of a gateway sees the own jobs and
// no other's, as text whatever they are called, submits a module, watches it to its
// result, and stops a job. A token that only reads has no form, and of a user who is
// disabled the page shows nothing any more.
func TestJobsAtAPortal(t *testing.T) {
	needBrowser(t)
	at := port(t)
	bearer := "[api]\nbearer = \"all\"\n"
	hosts := cluster(t, bearer, bearer+fmt.Sprintf("[gateway]\nlisten = \"127.0.0.1:%d\"\n", at), bearer)
	founder := hosts[0]
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	version, err := founder.api.Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	set := func(disabled bool) {
		t.Helper()
		keys := []string{access.FormatPublicKey(key.Public().(ed25519.PublicKey))}
		if _, err := founder.api.SetUser(ctx, "ann", api.UserRequest{Role: "submitter", Keys: keys, Disabled: disabled}); err != nil {
			t.Fatal(err)
		}
	}
	set(false)
	module := filepath.Join(filepath.Dir(program(t)), "examples", "pi.wasm")
	text, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	put, err := founder.api.PutArtefact(ctx, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	others, err := founder.api.Submit(ctx, api.SubmitRequest{Spec: job.Spec{Key: "others", Name: "not of ann", Artefact: put.Hash, Iterations: 1000, Chunk: 500}})
	if err == nil { // then the module is compiled, which takes long beside much else
		_, err = founder.api.FollowJob(ctx, string(others.Job), api.FollowOptions{}, func(api.Job) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}

	p := open(t, fmt.Sprintf("http://127.0.0.1:%d/", at))
	p.until("the page is there", `document.getElementById("state")?.textContent.startsWith("Nothing runs")`)
	press := func(id string) {
		t.Helper()
		var ok bool
		p.value(`(document.getElementById("`+id+`").click(), true)`, &ok)
	}
	fill := func(id, value string) {
		t.Helper()
		var ok bool
		p.value(fmt.Sprintf(`(document.getElementById(%q).value = %q, document.getElementById(%q).dispatchEvent(new Event("input", {bubbles: true})), true)`, id, value, id), &ok)
	}
	show := func(role access.Role) {
		t.Helper()
		token, err := access.Mint(version.Cluster, "ann", role, key, "id", time.Now(), 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		fill("text", token)
		var ok bool
		p.value(`(document.getElementById("token").requestSubmit(), true)`, &ok)
	}
	p.run(axe(t) + "; 1")
	seen := func(name string) {
		t.Helper()
		var wrong []string
		for _, l := range looks() {
			p.look(l.colours, l.width)
			value, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" ")))`, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			wrong = value
			var over bool
			if p.value(`document.documentElement.scrollWidth > innerWidth`, &over); over || len(wrong) > 0 {
				t.Errorf("%s, %s, %d px: wider %v, %v", name, l.colours, l.width, over, wrong)
			}
			if dir := os.Getenv("SKEIN_PICTURES"); dir != "" {
				picture(t, p, filepath.Join(dir, fmt.Sprintf("portal-%s-%s-%d.png", name, l.colours, l.width)))
			}
		}
		p.look("light", 1280)
	}

	fill("text", "no token")
	press("token")
	p.run(`document.getElementById("token").requestSubmit(); 1`)
	p.until("what is no token is refused", `document.getElementById("said").textContent.includes("not good")`)
	// This host may not have heard of ann yet.
	for range 50 {
		show(access.Submitter)
		p.until("it answers", `/You are ann|not good/.test(document.getElementById("said").textContent) && document.getElementById("said").textContent !== "Asking."`)
		if strings.Contains(p.text("#said"), "You are ann, a submitter") {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	p.until("there is none", `!document.getElementById("mine").hidden && !document.getElementById("none").hidden`)
	seen("empty")

	const name = `<img src=x onerror="document.title='broken'"> & Söhne`
	fill("name", name)
	fill("iterations", "100000") // a busy machine is slow, so it is split into many chunks
	upload(t, p, "#module", module)
	p.run(`document.getElementById("submit").requestSubmit(); 1`)
	p.until("it is sent", `document.getElementById("sent").textContent !== "Sending."`)
	if said := p.text("#sent"); said != "Submitted." {
		t.Fatalf("the form says %q; trouble %q", said, p.text("#trouble"))
	}
	p.until("it is done, with a result", `/completed/.test(document.getElementById("facts").textContent) && document.querySelector("#metrics td")`)
	if title := p.text("#title"); title != name {
		t.Errorf("it is called %s", title)
	}
	if row := p.text("#list li"); !strings.Contains(row, name) || !strings.Contains(row, "completed, 100 %") || strings.Contains(row, "not of ann") {
		t.Errorf("the list has %s", row)
	}
	var made int
	if p.value(`document.querySelectorAll("main img").length + (document.title === "broken" ? 1 : 0)`, &made); made > 0 {
		t.Error("a name became markup")
	}
	if metrics := p.text("#metrics tr"); !strings.Contains(metrics, "pi3.1") {
		t.Errorf("the result is %s", metrics)
	}
	seen("done")

	fill("name", "long")
	fill("iterations", "1000000000000000")
	p.run(`document.getElementById("submit").requestSubmit(); 1`)
	p.until("the long one runs", `document.getElementById("title").textContent === "long" && /running/.test(document.getElementById("facts").textContent) && !document.getElementById("stop").hidden`)
	seen("running")
	press("stop")
	p.until("it is stopped", `/cancelled/.test(document.getElementById("facts").textContent) && document.getElementById("stop").hidden`)
	list, err := founder.api.Jobs(ctx)
	if err != nil || len(list.Jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(list.Jobs), err)
	}
	for _, j := range list.Jobs {
		if mine := j.ID != others.Job; mine != (j.Owner == "user:ann") {
			t.Errorf("%s is %s's", j.Name, j.Owner)
		}
	}

	press("out")
	p.until("it is forgotten", `document.getElementById("mine").hidden && document.querySelectorAll("#list li").length === 0`)
	show(access.Viewer)
	p.until("it only reads", `document.getElementById("said").textContent.includes("only reads") && document.querySelectorAll("#list li").length === 2`)
	var hidden bool
	if p.value(`document.getElementById("submit").hidden`, &hidden); !hidden {
		t.Error("a token that reads has the form")
	}
	set(true)
	p.until("who is disabled sees nothing", `document.getElementById("said").textContent.includes("not good") && document.getElementById("mine").hidden && document.querySelectorAll("#list li").length === 0`)
}

// upload has somebody choose a file.
func upload(t *testing.T, p *tab, selector, path string) {
	t.Helper()
	p.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		doc, err := cdp.Call(ctx, target, dom.GetDocument, dom.GetDocumentParams{})
		if err != nil {
			return chromedp.Void{}, err
		}
		node, err := cdp.Call(ctx, target, dom.QuerySelector, dom.QuerySelectorParams{NodeID: doc.Root.NodeID, Selector: selector})
		if err != nil {
			return chromedp.Void{}, err
		}
		_, err = cdp.Call(ctx, target, dom.SetFileInputFiles, dom.SetFileInputFilesParams{NodeID: node.NodeID, Files: []string{path}})
		return chromedp.Void{}, err
	})
}

// picture writes what the page looks like, all of it.
func picture(t *testing.T, p *tab, path string) {
	t.Helper()
	shot, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, shot.Data, 0o600); err != nil {
		t.Fatal(err)
	}
}
