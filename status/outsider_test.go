package status

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/access"
)

// wire is a request as it goes over a connection, byte for byte.
type wire struct {
	method, target string   // of the request line
	path, query    string   // what the proof is over; empty: target, split
	proof          string   // whose; empty: none
	more           []string // further header lines
	body           string
	length         string // of Content-Length, if it is another than that of body
}

// send writes w to a host and returns what it answers; 0: it closed the connection while
// there was more to read, and the answer may be lost by that.
func (w wire) send(t *testing.T, host string) (int, string) {
	t.Helper()
	if w.path == "" {
		w.path, w.query, _ = strings.Cut(w.target, "?")
	}
	lines := append([]string{w.method + " " + w.target + " HTTP/1.1", "Host: " + host, "Connection: close"}, w.more...)
	if w.length == "" {
		w.length = fmt.Sprint(len(w.body))
	}
	lines = append(lines, "Content-Length: "+w.length)
	if w.proof != "" {
		var nonce [access.NonceBytes]byte
		_, _ = rand.Read(nonce[:]) // never fails
		p, err := access.Sign(access.Request{
			Cluster: testCluster, Method: w.method, Host: host, Path: w.path, Query: w.query, Body: sha256.Sum256([]byte(w.body)),
		}, userKey(w.proof), nonce, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		p.Put(h)
		for name, values := range h {
			lines = append(lines, name+": "+values[0])
		}
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go func() { // a host may answer before it has read all
		_, _ = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+w.body)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, syscall.ECONNRESET) {
		return 0, ""
	}
	if err != nil {
		t.Fatalf("%s %.80s: %v", w.method, w.target, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%s %.80s: %v", w.method, w.target, err)
	}
	return resp.StatusCode, string(text)
}

// TestOutsider: what somebody sends who keeps to no client gets nothing of another's,
// changes nothing, and gets an answer.
func TestOutsider(t *testing.T) {
	f := newFake()
	twoOwners(f)
	f.users = access.NewDirectory([]access.User{someone("ann", access.Submitter), someone("sam", access.Submitter)})
	plain, _, _ := listening(t, f)
	host := strings.TrimPrefix(plain, "http://")
	a, b := string(jobA), string(jobB)
	token, err := access.Mint(testCluster, "ann", access.Submitter, userKey("ann"), "id", time.Now(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Authorization: Bearer " + token
	own, sams := "/v1/jobs/"+a, "/v1/jobs/"+b
	for name, w := range map[string]wire{"a proof": {proof: "ann"}, "a token": {more: []string{bearer}}} {
		w.method, w.target = "GET", own
		if code, text := w.send(t, host); code != http.StatusOK || !strings.Contains(text, "user:ann") {
			t.Fatalf("the own job, by %s: %d %s", name, code, text)
		}
	}
	for name, c := range map[string]struct {
		wire
		want []int
	}{
		// Paths that are another one once they are cleaned.
		"two slashes":              {wire{method: "GET", target: "//v1/jobs/" + a, proof: "sam"}, []int{301, 307, 308, 404}},
		"slashes within":           {wire{method: "GET", target: "/v1//jobs///" + a, proof: "sam"}, []int{301, 307, 308, 404}},
		"up":                       {wire{method: "GET", target: sams + "/../" + a, proof: "sam"}, []int{301, 307, 308, 404}},
		"up in hex":                {wire{method: "GET", target: sams + "/%2e%2e/" + a, proof: "sam"}, []int{301, 307, 308, 404}},
		"up with a slash in hex":   {wire{method: "GET", target: sams + "%2f..%2f" + a, proof: "sam"}, []int{301, 307, 308, 400, 404}},
		"a letter in hex":          {wire{method: "GET", target: "/v1/jobs/%6a" + a[1:], proof: "sam"}, []int{404}},
		"capitals":                 {wire{method: "GET", target: "/V1/JOBS/" + a, proof: "sam"}, []int{404}},
		"a slash at the end":       {wire{method: "GET", target: "/v1/jobs/" + a + "/", proof: "sam"}, []int{404}},
		"a semicolon":              {wire{method: "GET", target: "/v1/jobs/" + a + ";x=1", proof: "sam"}, []int{400, 404}},
		"a zero":                   {wire{method: "GET", target: "/v1/jobs/" + a + "%00", proof: "sam"}, []int{400, 404}},
		"a whole URL":              {wire{method: "GET", target: "http://" + host + "/v1/jobs/" + a, path: "/v1/jobs/" + a, proof: "sam"}, []int{404}},
		"a URL of another host":    {wire{method: "GET", target: "http://h9" + own, path: own, proof: "ann"}, []int{401, 403}},
		"a long path":              {wire{method: "GET", target: "/v1/jobs/" + strings.Repeat("j", 60<<10), proof: "sam"}, []int{400, 404}},
		"signed as it is cleaned":  {wire{method: "GET", target: "/v1//jobs/" + a, path: own, proof: "ann"}, []int{301, 307, 308, 401}},
		"stop of another's, up":    {wire{method: "POST", target: sams + "/../" + a + "/stop", body: "{}", proof: "sam"}, []int{301, 307, 308, 404}},
		"stop of another's":        {wire{method: "POST", target: "/v1/jobs/" + a + "/stop", body: "{}", proof: "sam"}, []int{404}},
		"stop by another's prefix": {wire{method: "POST", target: "/v1/jobs/" + a[:8] + "/stop", body: "{}", proof: "sam"}, []int{404}},
		"another method":           {wire{method: "GET", target: own, proof: "ann", more: []string{"X-HTTP-Method-Override: DELETE"}}, []int{200}},
		"a method of none":         {wire{method: "BREW", target: own, proof: "ann"}, []int{405}},

		// Parameters and headers that are there twice.
		"a parameter twice":          {wire{method: "GET", target: "/v1/jobs?limit=1&limit=2", proof: "ann"}, []int{400}},
		"a parameter of none":        {wire{method: "GET", target: "/v1/jobs?owner=user:ann", proof: "ann"}, []int{400}},
		"a query behind the proof":   {wire{method: "GET", target: own + "?consistency=local", path: own, proof: "ann"}, []int{401}},
		"two signatures":             {wire{method: "GET", target: own, proof: "ann", more: []string{"Skein-Signature: x"}}, []int{401}},
		"an empty signature first":   {wire{method: "GET", target: own, proof: "ann", more: []string{"Skein-Signature:"}}, []int{401}},
		"two keys":                   {wire{method: "GET", target: own, proof: "ann", more: []string{"Skein-Key: x"}}, []int{401}},
		"two times":                  {wire{method: "GET", target: own, proof: "ann", more: []string{"Skein-Time: 1"}}, []int{401}},
		"two tokens":                 {wire{method: "GET", target: own, more: []string{bearer, "Authorization: Bearer x"}}, []int{401}},
		"two tokens, the other last": {wire{method: "GET", target: own, more: []string{"Authorization: Basic eDp4", bearer}}, []int{401}},
		"a token and a proof":        {wire{method: "GET", target: own, proof: "ann", more: []string{bearer}}, []int{401}},
		"two hosts":                  {wire{method: "GET", target: own, proof: "ann", more: []string{"Host: h9"}}, []int{400}},
		"two lengths":                {wire{method: "POST", target: own + "/stop", body: "{}", proof: "ann", more: []string{"Content-Length: 20"}}, []int{400}},
		"a time of none":             {wire{method: "GET", target: own, proof: "ann", more: []string{"Skein-Timeout-Ms: -5"}}, []int{400}},
		"a header too long":          {wire{method: "GET", target: own, proof: "ann", more: []string{"X: " + strings.Repeat("x", 80<<10)}}, []int{431, 0}},

		// Cursors.
		"a cursor of bytes":     {wire{method: "GET", target: own + "?min=%ff%00", proof: "ann"}, []int{400}},
		"a cursor too large":    {wire{method: "GET", target: own + "?min=n1/1:99999999999999999999", proof: "ann"}, []int{400}},
		"a cursor of nothing":   {wire{method: "GET", target: "/v1/events?after=,,,", proof: "ann"}, []int{400}},
		"a cursor with a sign":  {wire{method: "GET", target: own + "/chunks?after=n1/1:-1", proof: "ann"}, []int{400}},
		"a watch after garbage": {wire{method: "GET", target: "/v1/watch?topics=jobs&after=x", proof: "ann"}, []int{400}},

		// Bodies.
		"a body too long":         {wire{method: "POST", target: own + "/stop", body: `{"reason":"` + strings.Repeat("x", maxGroupBody) + `"}`, proof: "ann"}, []int{413, 0}},
		"a body said to be long":  {wire{method: "POST", target: own + "/stop", body: "{}", length: "99999999999", proof: "ann"}, []int{413, 0}},
		"a long body of nobody":   {wire{method: "POST", target: own + "/stop", body: "{}", length: "99999999999", proof: "eve"}, []int{401}},
		"a body twice":            {wire{method: "POST", target: own + "/stop", body: "{}{}", proof: "ann"}, []int{400}},
		"a body too deep":         {wire{method: "POST", target: own + "/stop", body: strings.Repeat("[", 20000), proof: "ann"}, []int{400}},
		"an upload of other hash": {wire{method: "PUT", target: "/v1/artefacts", body: "module", proof: "ann", more: []string{"Skein-Body: " + hex.EncodeToString(make([]byte, 32))}}, []int{401}},
	} {
		code, text := c.send(t, host)
		if !slices.Contains(c.want, code) || c.proof != "ann" && strings.Contains(text, "user:ann") {
			t.Errorf("%s: %d %.300s, want %v", name, code, text, c.want)
		}
	}
	if len(f.actors) > 0 {
		t.Errorf("something was done by %v", f.actors)
	}
}

// TestSlowHeaders: who sends a header byte by byte is cut off.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	plain, _, _ := listening(t, newFake())
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", strings.TrimPrefix(plain, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		cut <- err
	}()
	if _, err := io.WriteString(conn, "GET /v1/jobs HTTP/1.1\r\nX: "); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-cut:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it was read for a minute")
			}
			return
		case <-tick.C:
			_, _ = io.WriteString(conn, "x") // fails once it is cut off
		}
	}
}
