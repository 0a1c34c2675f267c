package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestCredit(t *testing.T) {
	const most, rate = 30 * time.Second, 500
	for _, c := range []struct {
		name         string
		left, waited time.Duration
		n            int
		want         time.Duration
	}{
		{"nothing came", most, 10 * time.Second, 0, 20 * time.Second},
		{"at the rate", 10 * time.Second, time.Second, 500, 10 * time.Second},
		{"a byte every 5 s", 10 * time.Second, 5 * time.Second, 1, 5*time.Second + 2*time.Millisecond},
		{"fast again", 10 * time.Second, time.Second, 10_000, 29 * time.Second},
		{"no more than at the begin", 10 * time.Second, time.Second, 1 << 20, most},
		{"used up", time.Second, 2 * time.Second, 0, -time.Second},
	} {
		if got := credit(c.left, most, c.waited, c.n, rate); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestSlowBodies: a body of which a byte comes now and then is given up, one that
// comes fast enough is not.
func TestSlowBodies(t *testing.T) {
	const start = 400 * time.Millisecond // credit, since the idle time is no more
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	defer target.Close()
	cut := make(chan string, 10)
	path := run(t, Options{Targets: []string{address(target)}, Idle: start, Answer: limit, BodyRate: 100, OnCut: func(why string) { cut <- why }})
	post := func(size int) (status int, body string) {
		c := dial(t, path)
		go func() {
			_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", public)
			for sent := 0; sent < 1000; sent += size { // ends with the connection
				if _, err := c.Write(make([]byte, min(size, 1000-sent))); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body) // the refusal may come with a reset
		return resp.StatusCode, string(text)
	}
	begin := time.Now()
	if status, _ := post(1); status != http.StatusRequestTimeout { // 50 bytes a second
		t.Errorf("a body that comes too slowly: %d", status)
	}
	if took := time.Since(begin); took < start {
		t.Errorf("given up after %s", took)
	}
	if why := <-cut; why != CutBody {
		t.Errorf("cut off: %s", why)
	}
	if status, body := post(20); status != 200 || body != "1000 <nil>" {
		t.Errorf("a body that comes fast enough: %d %q", status, body)
	}
}

// TestUnreadBodies: a request that is not passed on ends too when its body does not
// come: the server would read it for ever, and keep the place.
func TestUnreadBodies(t *testing.T) {
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	path := run(t, Options{
		Targets: []string{address(target)}, Public: func() []string { return []string{"here"} }, Idle: time.Second,
		Join: http.NotFoundHandler(), JoinPath: "/.rb/",
	})
	for _, head := range []string{"POST / HTTP/1.1\r\nHost: elsewhere", "POST /.rb/x HTTP/1.1\r\nHost: here", "CONNECT here:80 HTTP/1.1\r\nHost: here"} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n5\r\nx"} {
			c := dial(t, path)
			if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, head+"\r\n"+body); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(c); err != nil {
				t.Errorf("%s, %s: %q, %v", head, body, answer, err)
			}
			_ = c.Close()
		}
	}
}
