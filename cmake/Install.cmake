# What `cmake --install` puts where: the program finds its probe at ../share/crosscheck/probe.
include(GNUInstallDirs)
install(TARGETS crosscheck RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY probe/src/crosscheck_probe DESTINATION ${CMAKE_INSTALL_DATADIR}/crosscheck/probe
  PATTERN __pycache__ EXCLUDE)
install(FILES dist/crosscheck.service DESTINATION lib/systemd/system)
install(FILES dist/crosscheck.sysusers DESTINATION lib/sysusers.d RENAME crosscheck.conf)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES dist/settings.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
