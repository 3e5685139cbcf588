// A container's program that does what its arguments say, for tests. With `wait` it is also the pause container of every pod.
// It is linked statically, so its image is this one file.
//
//   actor STEP...        does the steps in order, then exits with 0
//     print TEXT         prints a line on stdout
//     message TEXT       writes the container's termination message
//     sleep SECONDS
//     wait               waits for SIGTERM
//     listen PORT        listens on this TCP port from now on
//     linger SECONDS     from now on SIGTERM ends this process only after so many seconds; without it, at once (143)
//     exit CODE
//     when NAME=VALUE    skips the next step unless the environment says so
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t linger_seconds = 0;

static void on_term(int number) {
  (void)number;
  if (linger_seconds == 0) _exit(143);
  struct timespec left = {linger_seconds, 0};
  while (nanosleep(&left, &left) != 0) {
  }
  _exit(143);
}

static void write_message(const char* text) {
  const int file = open("/dev/termination-log", O_WRONLY | O_TRUNC);
  if (file < 0 || write(file, text, strlen(text)) < 0) perror("/dev/termination-log");
  if (file >= 0) close(file);
}

static void take_port(int port) {
  const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || bind(listener, (const struct sockaddr*)&address, sizeof address) != 0 || listen(listener, 1) != 0) {
    perror("listen");
    exit(2);
  }
}

// True when the environment has NAME=VALUE.
static int holds(const char* claim) {
  const char* equals = strchr(claim, '=');
  if (equals == NULL) return 0;
  char name[128] = "";
  if ((size_t)(equals - claim) >= sizeof name) return 0;
  memcpy(name, claim, (size_t)(equals - claim));
  const char* value = getenv(name);
  return value != NULL && strcmp(value, equals + 1) == 0;
}

static void do_step(const char* verb, const char* argument) {
  if (strcmp(verb, "print") == 0) {
    puts(argument);
  } else if (strcmp(verb, "message") == 0) {
    write_message(argument);
  } else if (strcmp(verb, "sleep") == 0) {
    struct timespec left = {atoi(argument), 0};
    while (nanosleep(&left, &left) != 0) {
    }
  } else if (strcmp(verb, "listen") == 0) {
    take_port(atoi(argument));
  } else if (strcmp(verb, "linger") == 0) {
    linger_seconds = atoi(argument);
  } else if (strcmp(verb, "exit") == 0) {
    exit(atoi(argument));
  } else {
    fprintf(stderr, "unknown step '%s'\n", verb);
    exit(2);
  }
}

int main(int count, char** words) {
  // As the first process of its namespace it has no default action on SIGTERM: without a handler the signal would be lost.
  const struct sigaction action = {.sa_handler = on_term};
  sigaction(SIGTERM, &action, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  int is_skipping = 0;
  for (int i = 1; i < count;) {
    const char* verb = words[i++];
    const int has_argument = strcmp(verb, "wait") != 0;
    if (has_argument && i == count) {
      fprintf(stderr, "step '%s' needs an argument\n", verb);
      return 2;
    }
    const char* argument = has_argument ? words[i++] : "";
    if (strcmp(verb, "when") == 0) {
      is_skipping = !holds(argument);
      continue;
    }
    if (!is_skipping && has_argument) do_step(verb, argument);
    while (!is_skipping && !has_argument) pause();
    is_skipping = 0;
  }
  return 0;
}
