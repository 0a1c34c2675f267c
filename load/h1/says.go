package h1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// maxSaid bounds what Says reads of an answer, in bytes.
const maxSaid = 4 << 10

// Says asks for a path, over a connection that is good for nothing behind that, and reports what is
// wrong with the answer if it is not a text.
func Says(c net.Conn, host, path, agent, want string) error {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", path, host, agent); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, MaxHead)), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the status is %d", resp.StatusCode)
	case strings.TrimSpace(string(text)) != want || want == "":
		return fmt.Errorf("it is %.60q", text)
	}
	return nil
}
