package engine

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/skein-project/skein/load"
)

// message is a message of gRPC as it is sent.
func message(flag byte, size int, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flag}, uint32(size))) + text //nolint:gosec // of a test
}

// badTarget answers calls by hand, over HTTP/2 without TLS or HTTP/1.1.
func badTarget(t *testing.T, two bool, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	var p http.Protocols
	p.SetHTTP1(!two)
	p.SetUnencryptedHTTP2(two)
	s.Config.Protocols = &p
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// TestBadCalls: whatever a target answers to a call has its class, and what it says shows no secret.
func TestBadCalls(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	ends := func(w http.ResponseWriter, code string) { w.Header().Set(http.TrailerPrefix+"Grpc-Status", code) }
	for name, x := range map[string]struct {
		one    bool // over HTTP/1.1
		answer http.HandlerFunc
		want   load.Class
		text   string
	}{
		"good": {false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, message(0, 2, "\x08\x01"))
			ends(w, "0")
		}, load.OK, ""},
		"compressed": {false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, message(1, 2, "\x08\x01"))
			ends(w, "0")
		}, load.Protocol, "compressed"},
		"short": {false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, message(0, 1<<31, "\x08\x01"))
			ends(w, "0")
		}, load.Protocol, "ends after 2"},
		"junk": {false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, message(0, 2, "\xff\xff"))
			ends(w, "0")
		}, load.Protocol, "what came is no"},
		"no trailers": {false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, message(0, 2, "\x08\x01")) }, load.Protocol, "grpc-status is"},
		"bad trailers": {false, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, message(0, 2, "\x08\x01"))
			ends(w, "-1")
		}, load.Protocol, "grpc-status is"},
		"only announced": {false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Trailer", "Grpc-Status, Other")
			w.WriteHeader(http.StatusOK)
			w.Header().Del("Grpc-Status")
		}, load.HTTP4xx, "NOT_FOUND"},
		"page":           {false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, load.Protocol, "grpc-status is"},
		"page not there": {false, http.NotFound, load.HTTP4xx, "the status is 404"},
		"no content":     {false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, load.Protocol, "the status is 204"},
		"redirect": {false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusSeeOther)
		}, load.Protocol, "the status is 303"},
		"HTTP/1.1": {true, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, load.Protocol, ""},
		"says much": {false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Grpc-Status", "7")
			w.Header().Set("Grpc-Message", strings.Repeat("x", 190)+r.Header.Get("X-Key")+strings.Repeat("y", 30_000))
		}, load.HTTP4xx, "PERMISSION_DENIED"},
		"head without end": {false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Grpc-Status", "7")
			w.Header().Set("Grpc-Message", strings.Repeat("x", 1<<20))
		}, load.Protocol, ""},
		"messages without end": {false, func(w http.ResponseWriter, r *http.Request) {
			for piece := strings.Repeat(message(0, 2, "\x08\x01"), 100_000); r.Context().Err() == nil; {
				fmt.Fprint(w, piece)
			}
		}, load.TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := badTarget(t, !x.one, x.answer)
			var class load.Class
			var told error
			o := Options{PlainTime: true, Files: map[string][]byte{"health.binpb": descriptors(t)}, Trace: func(e Exchange) { class, told = e.Class, e.Err }}
			o.Plan = planOf(t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 1, for = "1s" }
grpc = { descriptors = "health.binpb" }
http = { headers = { X-Key = "${secret.key}" } }
[[flow.f]]
grpc = "%s/grpc.health.v1.Health/Check"
check = "json('$.status') == 'SERVING'"
timeout = "60s"`, url), load.Inputs{Secret: func(string) (string, bool) { return secret, true }})
			if x.want != load.OK { // a check of what is no answer would hide its class
				o.Plan.Steps[0].Checks = nil
			}
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			err = e.Once(t.Context())
			if class != x.want || (err == nil) != (x.want == load.OK) || x.text != "" && !strings.Contains(fmt.Sprint(told), x.text) {
				t.Errorf("%s: %.300v, want %s", class, told, x.want)
			}
			if text := load.Redact(fmt.Sprint(told), o.Plan.Secrets); strings.Contains(text, secret[:7]) {
				t.Errorf("a secret is told: %s", text)
			}
		})
	}
}

// TestSecretMessage: why a message is refused tells no secret that is in it.
func TestSecretMessage(t *testing.T) {
	p := planOf(t, `
traffic.main = { flow = "f", users = 1, for = "1s" }
grpc = { descriptors = "health.binpb" }
[[flow.f]]
grpc = "http://target.test/grpc.health.v1.Health/Check"
body = '{"${secret.key}": 1}'`, load.Inputs{Secret: func(string) (string, bool) { return "hunter2-hunter2", true }})
	if _, err := New(Options{Plan: p, Files: map[string][]byte{"health.binpb": descriptors(t)}}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// TestNotJudged: where an answer is no call's, no check is said to hold.
func TestNotJudged(t *testing.T) {
	url := badTarget(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	var got [][]bool
	e, err := New(Options{
		PlainTime: true, Files: map[string][]byte{"health.binpb": descriptors(t)}, Trace: func(x Exchange) { got = append(got, x.Checks) },
		Plan: planOf(t, fmt.Sprintf(`
traffic.main = { flow = "f", users = 1, for = "1s" }
grpc = { descriptors = "health.binpb" }
http = { version = "h2c" }
[[flow.f]]
get = "%[1]s/"
check = "status == 200"
[[flow.f]]
grpc = "%[1]s/grpc.health.v1.Health/Check"
check = "status == 200"`, url), load.Inputs{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Once(t.Context()) // the second step is not as it should be
	if fmt.Sprint(got) != "[[true] []]" {
		t.Error(got)
	}
}
