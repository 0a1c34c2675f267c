package browser

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/web"
)

// onTheWay carries requests to a host, and changes what comes back: whole bodies, and
// line by line what the watch says.
type onTheWay struct {
	to     http.RoundTripper
	change atomic.Pointer[func(path string, body []byte) []byte]
}

func (w *onTheWay) changed(path string, body []byte) []byte {
	if f := w.change.Load(); f != nil {
		return (*f)(path, body)
	}
	return body
}

func (w *onTheWay) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.to.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := resp.Body
	if r.URL.Path != "/v1/watch" {
		defer body.Close()
		text, err := io.ReadAll(body)
		resp.Body = io.NopCloser(bytes.NewReader(w.changed(r.URL.Path, text)))
		return resp, err
	}
	from, to := io.Pipe()
	resp.Body = from
	go func() { // ends with the stream, or its reader
		defer body.Close()
		in := bufio.NewReader(body)
		for {
			line, err := in.ReadBytes('\n')
			if err == nil {
				_, err = to.Write(w.changed(r.URL.Path, line))
			}
			if err != nil {
				_ = to.CloseWithError(err) // never fails
				return
			}
		}
	}()
	return resp, nil
}

// tampered serves the page of a host, whose answers w may change.
func (h *host) tampered(t *testing.T) (*onTheWay, string) {
	t.Helper()
	target, err := api.ParseTarget(h.socket())
	if err != nil {
		t.Fatal(err)
	}
	w := &onTheWay{to: target.Transport(nil)}
	gate, code := web.NewGate(time.Now)
	page, err := web.New(web.Options{API: w, Names: []string{"127.0.0.1"}, Gate: gate})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(page)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return w, s.URL + "/#" + code
}

// testProof has the page prove events of all hosts, and shows it answers of which one
// byte was changed on the way.
func testProof(t *testing.T, seen *host) {
	way, link := seen.tampered(t)
	p := open(t, link)
	p.says("holds the lease")
	const path = "/v1/events/n1/1/3"
	var proof api.EventProof
	seen.raw(t, path, &proof)
	e, err := record.DecodeEvent(proof.Events[0].Raw)
	if err != nil {
		t.Fatal(err)
	}
	kind := string(e.Kind)
	root := fmt.Sprintf("%x", sha256.Sum256(proof.RootKey))
	for _, node := range []string{"n1", "n2", "n3"} {
		p.at("events/" + node + "/1/1")
		p.until("an event of "+node+" is proved", `document.querySelector("[data-proof=proved]")`)
		p.says(node+" signed its event", root[:32])
	}
	atAGlance := func(what, verdict string, says ...string) {
		t.Helper()
		p.at("network")
		p.at("")
		p.until(what, fmt.Sprintf(`document.querySelector("main .badge[data-proof=%s] a[href='#/events']")`, verdict))
		p.says(says...)
	}
	atAGlance("the overview proves the last events of all hosts", "proved", "proved in this page", "of 3 chains", root[:32], "n2 did not check older ones")
	look := func(what, verdict string, says ...string) {
		t.Helper()
		p.at("")
		p.at("events/n1/1/3")
		p.until(what, fmt.Sprintf(`document.querySelector("[data-proof=%s]")`, verdict))
		p.says(says...)
	}
	changed := func(change func(at string, body []byte) []byte) {
		way.change.Store(&change)
	}
	// One byte of the answer, of what the page relies on.
	for what, from := range map[string]string{
		"the bytes of the event": `"raw":"`, "its hash": `"hash":"`, "the signature": `"sig":"`, "the certificate": `"certs":["`, "the root key": `"root_key":"`,
		"the name of a field": `"ev`,
	} {
		changed(func(at string, body []byte) []byte {
			i := bytes.Index(body, []byte(from))
			if at != path || i < 0 {
				return body
			}
			body = bytes.Clone(body)
			if i += len(from); from != `"ev` {
				i += 16 // in the middle of what stands there
			}
			if body[i]++; !strings.Contains("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", string(body[i])) {
				body[i] = 'a'
			}
			return body
		})
		look("a flipped byte of "+what+" is found", "broken", "broken at n1/1:")
	}
	changed(func(at string, body []byte) []byte {
		if strings.HasPrefix(at, "/v1/events/n3/1/") {
			return bytes.Replace(body, []byte(`"raw":"`), []byte(`"raw":"AAAA`), 1)
		}
		return body
	})
	atAGlance("the overview finds what is wrong in one chain", "broken", "broken at n3/1:")
	// Bytes that hold together, of which one is not what was signed.
	changed(func(at string, body []byte) []byte {
		var a api.EventProof
		if at != path || json.Unmarshal(body, &a) != nil {
			return body
		}
		for i := range a.Events {
			e := &a.Events[i]
			if i > 0 {
				copy(e.Raw[1+1+len(e.Source.Node)+8+8:], a.Events[i-1].Hash[:])
				e.Prev = a.Events[i-1].Hash
			} else {
				e.Raw[len(e.Raw)-2]++
			}
			e.Hash = record.HashEvent(e.Prev, e.Raw)
		}
		a.Head.Hash = a.Events[len(a.Events)-1].Hash
		return []byte(row(a))
	})
	look("a forged chain is found", "broken", "broken at n1/1:")
	// What is shown is another than what was written.
	changed(func(at string, body []byte) []byte {
		if at != "/v1/watch" && at != "/v1/events" {
			return body
		}
		return bytes.ReplaceAll(body, []byte(`"kind":"`+kind+`"`), []byte(`"kind":"`+kind[1:]+`"`))
	})
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.base+"#/"))
	p.says("holds the lease")
	look("an event that is shown as another", "broken", "broken at n1/1:3", "the kind was another when n1 wrote it")
	way.change.Store(nil)
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.base+"#/"))
	p.says("holds the lease")
	look("nothing is wrong any more", "proved", "proved in this page")

	p.at("events?q=node:n1")
	p.until("a button", `document.querySelector(".proof-of-all button:not(:disabled)")`)
	p.run(`document.querySelector(".proof-of-all button").click(), 1`)
	p.until("the list is proved", `document.querySelector(".proof-of-all [data-proof=proved]")`)
	p.says(root[:32])

	// A browser that cannot: the host's own check is told, and that it is not this page's.
	p.run(`crypto.subtle.importKey = () => Promise.reject(new DOMException("no", "NotSupportedError")), 1`)
	look("it is not checked", "unchecked", "not checked", "this browser does not know Ed25519")
	atAGlance("the overview says so", "unchecked", "not checked", "this browser does not know Ed25519")
	check, err := seen.api.CheckLog(t.Context(), "", 0)
	for deadline := time.Now().Add(patience); err == nil && check.Running && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		check, err = seen.api.CheckLog(t.Context(), "", check.Run)
	}
	if err != nil || check.Result == nil || !check.Result.OK {
		t.Fatalf("the log of %s: %+v, %v", seen.name, check, err)
	}
	look("the host's check", "unchecked", "checked by n2", "this browser does not know Ed25519")
	atAGlance("the host's check at a glance", "unchecked", "checked by n2", "this browser does not know Ed25519")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.base+"#/"))
	p.says("proved in this page", "all of it checked by n2")
}
