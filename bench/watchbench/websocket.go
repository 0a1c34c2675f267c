package watchbench

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/skein-project/skein/cluster/event"
)

// hub sends messages to all its connections, as the chat of gorilla/websocket's
// examples does.
type hub struct {
	upgrader websocket.Upgrader

	mu     sync.Mutex
	queues map[chan *websocket.PreparedMessage]bool
}

// stall is what a reader may take for a message.
const stall = 15 * time.Second

// ServeHTTP implements http.Handler.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := h.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it was answered
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	queue := make(chan *websocket.PreparedMessage, 256)
	h.mu.Lock()
	h.queues[queue] = true
	h.mu.Unlock()
	for m := range queue {
		_ = conn.SetWriteDeadline(time.Now().Add(stall))
		if err := conn.WritePreparedMessage(m); err != nil {
			return
		}
	}
}

// publish sends the frames of events.
func (h *hub) publish(list []event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, data := range frames(list) {
		m, err := websocket.NewPreparedMessage(websocket.TextMessage, data)
		if err != nil { // of bytes
			panic("watchbench: " + err.Error())
		}
		for queue := range h.queues {
			queue <- m
		}
	}
}

func newHub(ctx context.Context, n int) (*fan, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hub{upgrader: websocket.Upgrader{WriteBufferSize: 4096}, queues: map[chan *websocket.PreparedMessage]bool{}}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: stall}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	f := &fan{name: "gorilla/websocket", readers: &readers{}, publish: h.publish}
	f.close = func() error {
		f.readers.close()
		h.mu.Lock()
		for queue := range h.queues {
			close(queue)
		}
		h.mu.Unlock()
		err := srv.Close()
		if err1 := <-ended; !errors.Is(err1, http.ErrServerClosed) {
			err = errors.Join(err, err1)
		}
		return err
	}
	if err := f.readers.connect(n, func(i int) (net.Conn, error) {
		d := websocket.Dialer{NetDialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, i, addr) }}
		conn, resp, err := d.DialContext(ctx, "ws://"+l.Addr().String(), nil)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		return conn.NetConn(), nil
	}); err != nil {
		return nil, errors.Join(err, f.close())
	}
	// All are in the hub once the last one's handler has entered it.
	for range 1000 {
		h.mu.Lock()
		in := len(h.queues)
		h.mu.Unlock()
		if in == n {
			return f, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, errors.Join(errStart, f.close())
}
