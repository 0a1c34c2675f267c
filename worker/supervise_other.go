//go:build !linux

package worker

import "io"

// supervise runs programs on Linux only.
func supervise(_ programSetup, _ io.Reader, report io.Writer) int {
	_ = writeRunnerFrame(report, programEnd{Failed: "programs run on Linux only"}) // the parent may have gone
	return 2
}
