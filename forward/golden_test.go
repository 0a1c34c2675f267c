package forward

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// golden is what hosts sent and answered before this package existed.
type golden struct {
	requests, answers map[string][]string
}

func readGolden(t testing.TB) golden {
	f, err := os.Open("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := golden{requests: map[string][]string{}, answers: map[string][]string{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), " ", 3)
		switch part[0] {
		case "request":
			g.requests[part[1]] = append(g.requests[part[1]], part[2])
		case "answer":
			g.answers[part[1]] = append(g.answers[part[1]], part[2])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return g
}

// speaks checks one operation against what hosts said before: this package
// writes the same bytes and reads them, on both sides of the stream.
func speaks[Req, Resp any](t *testing.T, g golden, op *Op[Req, Resp]) {
	t.Helper()
	if len(g.requests[op.Name]) == 0 || len(g.answers[op.Name]) == 0 {
		t.Errorf("%s: no golden lines", op.Name)
	}
	for _, line := range g.requests[op.Name] {
		req, err := readRequest(strings.NewReader(line), func(name string) bool { return name == op.Name })
		if err != nil || req.name != op.Name {
			t.Errorf("%s is not understood: %+v %v", line, req, err)
			continue
		}
		body, err := unmarshal[Req](req.body)
		if err != nil {
			t.Error(err)
		}
		text, err := encodeRequest(op.Name, req.actor, body)
		if err != nil || string(text) != line+"\n" {
			t.Errorf("request is %s, was %s: %v", text, line, err)
		}
		if old, err := legacyText[legacyRequest](text); err != nil || old != line {
			t.Errorf("a host from before understands %s, sent %s: %v", old, line, err)
		}
	}
	for _, line := range g.answers[op.Name] {
		resp, f, err := readAnswer[Resp](strings.NewReader(line), op.Key)
		if err != nil || f.Problem != nil {
			t.Errorf("%s is not understood: %+v %v", line, f, err)
		}
		text, err := encodeAnswer(op.Key, resp)
		if err != nil || string(text) != line+"\n" {
			t.Errorf("answer is %s, was %s: %v", text, line, err)
		}
		if old, err := legacyText[legacyReply](text); err != nil || old != line {
			t.Errorf("a host from before understands %s, got %s: %v", old, line, err)
		}
	}
	for _, line := range g.answers["problem"] {
		_, f, err := readAnswer[Resp](strings.NewReader(line), op.Key)
		if err != nil || f.Problem == nil {
			t.Errorf("%s is not understood: %v", line, err)
		}
	}
	// An answer without what was asked for is none.
	if _, _, err := readAnswer[Resp](strings.NewReader("{}"), op.Key); (err != nil) != (op.Key != "") {
		t.Errorf("%s: an empty answer is %v", op.Name, err)
	}
}

// TestGolden: hosts from before this package and hosts with it understand each
// other, to the byte.
func TestGolden(t *testing.T) {
	g := readGolden(t)
	speaks(t, g, CheckLog)
	speaks(t, g, Conflict)
	speaks(t, g, Depart)
	speaks(t, g, Drain)
	speaks(t, g, Group)
	speaks(t, g, OnionDrain)
	speaks(t, g, OnionGrant)
	speaks(t, g, Release)
	speaks(t, g, Remove)
	speaks(t, g, Renew)
	speaks(t, g, ShowVoters)
	speaks(t, g, Snapshot)
	speaks(t, g, StepDown)
	speaks(t, g, Stop)
	speaks(t, g, Submit)
	speaks(t, g, Voters)
	speaks(t, g, Workers)
	for _, line := range g.answers["problem"] {
		_, f, err := readAnswer[None](strings.NewReader(line), "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := encodeAnswer("", f)
		if err != nil || string(text) != line+"\n" {
			t.Errorf("refusal is %s, was %s: %v", text, line, err)
		}
	}
}

// pipes returns a Dial to the Router that *to points to.
func pipes(from cluster.NodeID, to **Router) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(context.Context, cluster.NodeID) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			(*to).Serve(context.Background(), from, far)
			far.Close()
		}()
		return near, nil
	}
}

// legacyHost answers one request as a host from before does that knows only
// these operations, or holds the lease.
func legacyHost(conn net.Conn, holds bool, answers map[string]string) {
	defer conn.Close()
	var req map[string]json.RawMessage
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return
	}
	for name, answer := range answers {
		if req[name] != nil {
			_, _ = conn.Write([]byte(answer + "\n")) // who asked may be gone
			return
		}
	}
	reply := legacyReply{Problem: api.Errorf(api.CodeNoHolder, "n1 does not hold the lease")}
	if holds {
		reply = legacyReply{Problem: api.Errorf(api.CodeInvalidRequest, "empty request")}
	}
	_ = json.NewEncoder(conn).Encode(reply) // the test sees what is missing
}

// TestOldHostAnswers asks a host from before this package: what it knows is
// answered, what it does not know is named.
func TestOldHostAnswers(t *testing.T) {
	g := readGolden(t)
	for _, holds := range []bool{true, false} {
		r, err := New(Options{
			Self: "n2", Lease: func() Lease { return Lease{Holder: "n1"} },
			Version: func(id cluster.NodeID) string { return map[cluster.NodeID]string{"n1": "0.3.1", "n2": "9"}[id] },
			Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
				near, far := net.Pipe()
				go legacyHost(far, holds, map[string]string{Release.Name: g.answers[Release.Name][0]})
				return near, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := AskHolder(t.Context(), r, Release, "uid:0@n2", ReleaseJob{Job: "jabc"})
		if err != nil || got.Chunks != 17 {
			t.Errorf("%+v %v", got, err)
		}
		_, err = AskHost(t.Context(), r, Drain, "n1", "uid:0", api.DrainRequest{Node: "n1"})
		if !api.IsCode(err, api.CodeConflict) || !strings.Contains(err.Error(), `the skein of n1 (0.3.1) is too old: it does not know the operation "drain"`) {
			t.Errorf("an operation that the other does not know: %v", err)
		}
	}
}

// TestOldHostAsks serves a host from before this package.
func TestOldHostAsks(t *testing.T) {
	g := readGolden(t)
	r, err := New(Options{Self: "n1", Lease: func() Lease { return Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	Handle(r, Stop, func(_ context.Context, a Asker, req StopJob) (None, error) {
		if a.Actor != "uid:0@n2" || a.From != "n2" || req.Job != "jabc" {
			t.Errorf("%+v %+v", a, req)
		}
		return None{}, nil
	})
	Handle(r, Release, func(context.Context, Asker, ReleaseJob) (Released, error) {
		return Released{}, Lacking(api.Errorf(api.CodeConflict, "no"))
	})
	ask := func(line string) (reply legacyReply) {
		conn, err := pipes("n2", &r)(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(conn).Decode(&reply); err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if reply := ask(g.requests[Stop.Name][0]); reply.Problem != nil {
		t.Errorf("%+v", reply)
	}
	if reply := ask(g.requests[Release.Name][0]); reply.Problem == nil || !reply.Lacks || reply.Problem.Detail != "no" {
		t.Errorf("%+v", reply)
	}
	if reply := ask(`{"actor":"x"}`); reply.Problem == nil || reply.Problem.Code != api.CodeInvalidRequest {
		t.Errorf("%+v", reply)
	}
}
