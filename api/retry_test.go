package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// turns answers with problems, as many as there are pauses, and then well.
type turns struct {
	code   Code
	pauses []float64
	bodies []string
	at     []time.Time
}

func (s *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	s.bodies, s.at = append(s.bodies, body), append(s.at, time.Now())
	status, text := 200, `{"job":"j1"}`
	if n := len(s.bodies) - 1; n < len(s.pauses) {
		p := Errorf(s.code, "too much")
		p.RetryAfterSeconds = &s.pauses[n]
		status, text = p.Status, mustJSON(p)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// TestClientWaitsItsTurn: a request that is refused for now is sent again, whole,
// when the answer says, a bounded number of times, and never for other reasons.
func TestClientWaitsItsTurn(t *testing.T) {
	for name, c := range map[string]struct {
		turns  turns
		within time.Duration
		asked  int
		ok     bool
	}{
		"twice refused":         {turns{code: CodeOverloaded, pauses: []float64{2, 0.5}}, time.Minute, 3, true},
		"always refused":        {turns{code: CodeOverloaded, pauses: []float64{1, 1, 1, 1, 1, 1}}, time.Minute, maxTries, false},
		"no time left":          {turns{code: CodeOverloaded, pauses: []float64{20}}, 10 * time.Second, 1, false},
		"longer than it waits":  {turns{code: CodeOverloaded, pauses: []float64{100}}, time.Hour, 1, false},
		"a number that is none": {turns{code: CodeOverloaded, pauses: []float64{-1}}, time.Hour, 1, false},
		"another reason":        {turns{code: CodeNotStable, pauses: []float64{1}}, time.Minute, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := Dial("127.0.0.1:1")
				if err != nil {
					t.Fatal(err)
				}
				client.http.Transport = &c.turns
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				_, err = client.StopJob(ctx, "j1", "why")
				if p := (*Problem)(nil); (err == nil) != c.ok || err != nil && !errors.As(err, &p) {
					t.Errorf("answer: %v", err)
				}
				if len(c.turns.bodies) != c.asked {
					t.Errorf("asked %d times, want %d", len(c.turns.bodies), c.asked)
				}
				for i, b := range c.turns.bodies {
					if b != `{"reason":"why"}` {
						t.Errorf("request %d: %q", i, b)
					}
					if i > 0 {
						if gap, want := c.turns.at[i].Sub(c.turns.at[i-1]), time.Duration(c.turns.pauses[i-1]*float64(time.Second)); gap < want || gap > want*6/5 {
							t.Errorf("asked again after %s, want %s and up to a fifth more", gap, want)
						}
					}
				}
			})
		})
	}
	t.Run("an upload cannot be read twice", func(t *testing.T) {
		client, err := Dial("127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		s := &turns{code: CodeOverloaded, pauses: []float64{0.01}}
		client.http.Transport = s
		if _, err := client.PutArtefact(t.Context(), strings.NewReader("x")); err == nil || len(s.bodies) != 1 {
			t.Errorf("%v after %d requests", err, len(s.bodies))
		}
	})
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
