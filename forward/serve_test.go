package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestBadRequests: whatever a member sends, the answer says what is wrong with
// it, and no handler runs.
func TestBadRequests(t *testing.T) {
	long := strings.Repeat("x", MaxMessage)
	many := ""
	for i := range maxFields + 1 {
		many += fmt.Sprintf(`"f%d":1,`, i)
	}
	for name, bad := range map[string]struct {
		text, want string
		code       api.Code
		unknown    bool
	}{
		"no object":         {`[]`, "not an object", api.CodeInvalidRequest, false},
		"no JSON":           {`hello`, "invalid character", api.CodeInvalidRequest, false},
		"nothing":           {`{}`, "empty request", api.CodeInvalidRequest, false},
		"null":              {`{"actor":"x","stop":null}`, "empty request", api.CodeInvalidRequest, false},
		"unknown":           {`{"actor":"x","explode":{}}`, `n1 does not know the operation "explode"`, api.CodeInvalidRequest, true},
		"unknown and long":  {`{"` + strings.Repeat("\u202e", 1000) + `":{}}`, "n1 does not know", api.CodeInvalidRequest, true},
		"two":               {`{"stop":{"job":"j"},"drain":{}}`, "both stop and drain", api.CodeInvalidRequest, false},
		"twice":             {`{"stop":{"job":"j"},"stop":{"job":"k"}}`, "both stop and stop", api.CodeInvalidRequest, false},
		"many fields":       {`{` + many + `"stop":{}}`, "more than 16 fields", api.CodeInvalidRequest, false},
		"actor":             {`{"actor":7,"stop":{"job":"j"}}`, "cannot unmarshal number", api.CodeInvalidRequest, false},
		"body":              {`{"actor":"x","stop":[]}`, "cannot unmarshal array", api.CodeInvalidRequest, false},
		"deep":              {`{"stop":` + strings.Repeat("[", 100_000), "depth", api.CodeInvalidRequest, false},
		"huge":              {`{"stop":{"job":"` + long, "EOF", api.CodeInvalidRequest, false},
		"at the holder":     {`{"release":{"job":"j"}}`, "n1 does not hold the lease", api.CodeNoHolder, false},
		"stream elsewhere":  {`{"follow_job":{"job":"j"}}`, "n1 does not hold the lease", api.CodeNoHolder, false},
		"for a user":        {`{"actor":"user:ann@n2","stop":{"job":"j"}}`, "n2 may not speak for", api.CodeForbidden, false},
		"stream for a user": {`{"actor":"user:ann","follow_job":{"job":"j"}}`, "n2 may not speak for", api.CodeForbidden, false},
		"body of a stream":  {`{"follow_job":7}`, "cannot unmarshal number", api.CodeInvalidRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := New(Options{Self: "n1", Lease: func() Lease { return Lease{Holder: "n2"} }})
			if err != nil {
				t.Fatal(err)
			}
			Handle(r, Stop, func(context.Context, Asker, StopJob) (None, error) {
				t.Error("it runs")
				return None{}, nil
			})
			Handle(r, Release, func(context.Context, Asker, ReleaseJob) (Released, error) {
				t.Error("it runs")
				return Released{}, nil
			})
			Handle(r, Drain, func(context.Context, Asker, api.DrainRequest) (api.Drain, error) {
				t.Error("it runs")
				return api.Drain{}, nil
			})
			HandleStream(r, FollowJob, func(context.Context, Asker, JobName, func(api.Job) error) error {
				t.Error("it runs")
				return nil
			})
			conn, err := pipes("n2", &r)(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a pipe has them
			go func() { _, _ = io.WriteString(conn, bad.text) }()  // it may be refused before its end
			var f failure
			if err := json.NewDecoder(conn).Decode(&f); err != nil {
				t.Fatal(err)
			}
			if f.Problem == nil || f.Problem.Code != bad.code || !strings.Contains(f.Problem.Detail, bad.want) || f.Unknown != bad.unknown {
				t.Errorf("%+v, want %q", f.Problem, bad.want)
			}
			if f.Problem != nil && len(f.Problem.Detail) > 500 {
				t.Errorf("an answer of %d bytes", len(f.Problem.Detail))
			}
		})
	}
}

// TestAskersPatience: a host that takes a request and never answers is given
// up when the caller's time is over.
func TestAskersPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := newPair(t, nil)
		Handle(silent.holder, Release, func(ctx context.Context, _ Asker, _ ReleaseJob) (Released, error) {
			<-ctx.Done()
			time.Sleep(time.Hour)
			return Released{}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := AskHolder(ctx, silent.other, Release, "", ReleaseJob{}); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		silent.served.Wait()
	})
}

// TestAllStreams bounds how many streams all members have open together.
func TestAllStreams(t *testing.T) {
	var o openStreams
	for i := range maxStreams {
		if !o.enter(cluster.NodeID(fmt.Sprint(i))) {
			t.Fatalf("%d are too many", i)
		}
	}
	if o.enter("one more") {
		t.Error("no bound")
	}
	o.leave("7")
	if !o.enter("one more") || len(o.count) != maxStreams {
		t.Errorf("%d members after one has gone", len(o.count))
	}
}
