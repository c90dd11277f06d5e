"""foreground.py COMMAND...  becomes COMMAND as the foreground job of the terminal on its input."""

import fcntl
import os
import signal
import sys
import termios

os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
