package gatebench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// CrowdRole makes a program of this module the other ends of many connections: what they
// take is not the gateway's.
const CrowdRole = "crowd"

const (
	dialers   = 16
	crowdTime = 5 * time.Minute // until all are attached
)

// Crowd is a program of CrowdRole: args are where and how many outside workers attach. It
// says so in a line, and holds their connections until there is nothing more to read.
func Crowd(args []string, in io.Reader, out, said io.Writer) int {
	err := errors.New("want an address and a number")
	if len(args) == 2 {
		var n int
		if n, err = strconv.Atoi(args[1]); err == nil {
			err = stand(args[0], n)
		}
	}
	if err != nil {
		fmt.Fprintln(said, "crowd:", err)
		return 1
	}
	fmt.Fprintln(out, "attached")
	_, _ = io.Copy(io.Discard, in) // its end is the sign
	return 0
}

// stand has n workers attach.
func stand(addr string, n int) error {
	var next atomic.Int64
	failed := make([]error, dialers)
	var dialing sync.WaitGroup
	for d := range failed {
		dialing.Go(func() {
			for failed[d] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				failed[d] = idle(addr, cluster.OutsideID(outsider(i)))
			}
		})
	}
	dialing.Wait()
	return errors.Join(failed...)
}

// idle has a worker attach over a connection, in the protocol's own words, and answer no
// more than pings then.
func idle(addr string, id cluster.NodeID) error {
	conn, resp, err := websocket.DefaultDialer.Dial("ws://"+addr, nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	_ = conn.SetReadDeadline(time.Now().Add(heardTime)) // of a socket
	for i, say := range []any{
		map[string]any{"id": 1, "connect": map[string]any{"token": id}},
		map[string]any{"id": 2, "subscribe": map[string]any{"channel": api.WorkChannel + string(id)}},
		map[string]any{"id": 3, "rpc": map[string]any{"method": api.RPCAttach, "data": newcomer}},
	} {
		var got struct {
			ID    int             `json:"id"`
			Error json.RawMessage `json:"error"`
		}
		err := conn.WriteJSON(say)
		if err == nil {
			err = conn.ReadJSON(&got)
		}
		if err == nil && (got.ID != i+1 || got.Error != nil) {
			err = fmt.Errorf("answer %d to %d: %s", got.ID, i+1, got.Error)
		}
		if err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	go func() { // ends with the program
		for {
			kind, text, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if string(text) == "{}" {
				_ = conn.WriteMessage(kind, text) // it is seen that a connection is missing
			}
		}
	}()
	return nil
}

// startCrowd has another process attach n workers at an address. end lets them go.
func startCrowd(ctx context.Context, addr string, n int) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", CrowdRole, addr, strconv.Itoa(n))
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	end = func() {
		_ = in.Close() // its end
		cancel()
		_ = cmd.Wait() // how it ended does not matter
	}
	late := time.AfterFunc(crowdTime, cancel)
	defer late.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		return nil, fmt.Errorf("%d workers did not attach: %q, %w: %s", n, line, err, said.String())
	}
	return end, nil
}
