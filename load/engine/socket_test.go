package engine

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/skein-project/skein/load"
)

// TestSocket: a step opens a WebSocket, with what users remember, sends and waits, takes from
// the last message, and counts; who does not speak it has its class.
func TestSocket(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login":
			http.SetCookie(w, &http.Cookie{Name: "who", Value: "u1"})
			return
		case r.URL.Path != "/chat", r.Header.Get("Cookie") != "who=u1", r.Header.Get("X-Room") != "7":
			w.WriteHeader(http.StatusForbidden)
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow() //nolint:errcheck // the end of a test
		_, text, err := c.Read(r.Context())
		if err != nil {
			return
		}
		for _, answer := range []string{`{"n":1}`, `{"n":2,"you":` + string(text) + `}`} {
			if c.Write(r.Context(), websocket.MessageText, []byte(answer)) != nil {
				return
			}
		}
		_, _, _ = c.Read(r.Context())
	})
	in(t, h, func(t *testing.T, s *scene) {
		r := s.run(t.Context(), t, `traffic.main = { flow = "f", users = 2, for = "2s", think = "500ms" }
[[flow.f]]
get = "http://target.test/login"
[[flow.f]]
name = "chat"
websocket = "ws://target.test/chat"
headers = { X-Room = "7" }
json = { say = "${user}" }
messages = 2
check = ["status == 101", "json('$.n') == 2"]
extract.you = { json = "$.you.say" }
[[flow.f]]
get = "http://target.test/${you}"
[[flow.f]]
name = "refused"
websocket = "http://target.test/other"`)
		chat, refused := r.Whole.Series[1], r.Whole.Series[3]
		if n := chat.Count(); n < 6 || chat.Classes[load.OK] != n || r.Whole.Checks[0].Failed+r.Whole.Checks[1].Failed > 0 || chat.In == 0 || chat.Out == 0 {
			t.Errorf("chat: %v, checks %+v, %d bytes in, %d out; %v", chat.Classes, r.Whole.Checks, chat.In, chat.Out, r.Errors)
		}
		if n := refused.Count(); n == 0 || refused.Classes[load.HTTP4xx] != n {
			t.Errorf("refused: %v", refused.Classes)
		}
		if after := r.Whole.Series[2]; after.Classes[load.Skipped] > 0 {
			t.Errorf("what was extracted is not there: %v", after.Classes)
		}
	})
}

// TestErrorsNameNoSecret: what a report says of an error has no secret of this host, which only
// net/http would put there.
func TestErrorsNameNoSecret(t *testing.T) {
	in(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), func(t *testing.T, s *scene) {
		s.o.Plan = planOf(t, `traffic.main = { flow = "f", users = 1, for = "1s", think = "500ms" }
[[flow.f]]
websocket = "ws://target.test/chat?key=${secret.key}"`, load.Inputs{Secret: func(string) (string, bool) { return "hunter2 #1", true }})
		r := s.run(t.Context(), t, "")
		if len(r.Errors) != 1 || strings.Contains(r.Errors[0].Text, "hunter2") || !strings.Contains(r.Errors[0].Text, "?key=[redacted]") {
			t.Errorf("%q", r.Errors)
		}
	})
}
